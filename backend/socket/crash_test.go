//go:build linux || darwin

package socket

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
