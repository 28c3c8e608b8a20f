//go:build linux || darwin

package socket

import "github.com/gocoord/coord/backend"

// crash ends the client as the kernel ends a process: descriptors close, and
// nobody is told anything.
func (b *Backend) crash() {
	b.mu.Lock()
	b.closed = true
	m, l := b.member, b.link
	b.mu.Unlock()
	if s := b.server.Load(); s != nil {
		s.mu.Lock()
		ln := s.ln
		s.stopping = true
		for w := range s.wires {
			_ = w.conn.Close()
		}
		s.mu.Unlock()
		_ = ln.Close()
		s.journal.close()
		_ = m.file.Close()
		_ = s.sidecar.Close()
	}
	_ = m.file.Close()
	if w, ok := l.(*wire); ok {
		_ = w.conn.Close()
	}
	b.cancel()
	b.loops.Wait()
}

// fail ends the calls of a crashed client, which nobody would wait for.
func (b *Backend) fail() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.endLocked(backend.ErrReleased, backend.ErrClosed)
}
