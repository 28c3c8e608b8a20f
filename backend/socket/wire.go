//go:build linux || darwin

package socket

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
)

// A wire sends and receives frames. Sending never waits: what the kernel does
// not take at once is written by a goroutine of the wire's own, so that a peer
// that is stopped holds nobody up.
type wire struct {
	conn *net.UnixConn
	raw  syscall.RawConn

	in    []byte // what was received
	taken int    // how much of it was returned
	turns *turns // whose turn it is to read, on a client's side

	mu      sync.Mutex
	out     []byte        // what the kernel has not taken
	spare   []byte        // for frames in the making
	closed  bool          //
	drained chan struct{} // closed when out is empty; nil while it is
	flusher sync.WaitGroup
}

func newWire(c *net.UnixConn) (*wire, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &wire{conn: c, raw: raw}, nil
}

// close ends the connection. What was not written is lost.
func (w *wire) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	_ = w.conn.Close()
	w.flusher.Wait()
}

// A framer is a request or a reply.
type framer interface{ append(b []byte) []byte }

// send writes a frame. An error shows when reading, not here.
func (w *wire) send(f framer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	if w.drained != nil {
		w.out = f.append(w.out)
		return
	}
	b := f.append(w.spare[:0])
	if cap(b) <= 64<<10 {
		w.spare = b
	}
	n := w.try(b)
	if n == len(b) {
		return
	}
	w.out = append(w.out[:0], b[n:]...)
	w.drained = make(chan struct{})
	w.flusher.Go(w.flush)
}

// try writes what the kernel takes at once.
func (w *wire) try(b []byte) (n int) {
	_ = w.raw.Write(func(fd uintptr) bool {
		for {
			var err error
			n, err = syscall.Write(int(fd), b)
			if !errors.Is(err, syscall.EINTR) {
				return true
			}
		}
	})
	return max(n, 0)
}

// flush writes the rest.
func (w *wire) flush() {
	var b []byte
	for {
		w.mu.Lock()
		b, w.out = w.out, b[:0]
		if len(b) == 0 || w.closed {
			close(w.drained)
			w.drained = nil
			if cap(w.out) > 64<<10 {
				w.out = nil
			}
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		if _, err := w.conn.Write(b); err != nil {
			b = b[:0]
		}
	}
}

// rest waits until a peer that sends faster than it reads has caught up.
func (w *wire) rest() {
	w.mu.Lock()
	drained := w.drained
	if len(w.out) < 1<<20 {
		drained = nil
	}
	w.mu.Unlock()
	if drained != nil {
		<-drained
	}
}

// receive returns the body of the next frame, which is good until the next
// call. After a deadline that has passed it goes on where it was.
func (w *wire) receive(limit int) ([]byte, error) {
	for {
		have := w.in[w.taken:]
		if len(have) >= 4 {
			n := int(binary.LittleEndian.Uint32(have))
			if n > limit {
				return nil, fmt.Errorf("a frame of %d bytes, and the limit is %d", n, limit)
			}
			if len(have)-4 >= n {
				w.taken += 4 + n
				return have[4 : 4+n], nil
			}
		}
		if err := w.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads what there is. The buffer grows with what was received, and not
// with what the length of a frame claims.
func (w *wire) fill() error {
	rest := len(w.in) - w.taken
	switch {
	case rest == 0 && cap(w.in) > 64<<10:
		w.in, w.taken = nil, 0
	case w.taken > 0:
		copy(w.in, w.in[w.taken:])
		w.in, w.taken = w.in[:rest], 0
	}
	w.in = slices.Grow(w.in, max(4<<10-rest, rest/2, 1<<10))
	n, err := w.conn.Read(w.in[rest:cap(w.in)])
	w.in = w.in[:rest+n]
	if n > 0 {
		return nil
	}
	return err
}
