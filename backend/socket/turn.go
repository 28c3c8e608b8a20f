//go:build linux || darwin

package socket

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Who waits for an answer reads it: passing it on from one goroutine to another
// would cost a third of a round trip. One at a time has the turn to read, and
// passes what is for others on to them. A goroutine of the client's own reads
// while several wait, and while nobody does, so as to see the connection end;
// but after a call it leaves the turn to the next for a moment.
type turns struct {
	free   chan struct{} // has a value while nobody reads
	wake   chan struct{} // has a value when the client's own goroutine should
	broken chan struct{} // closed when the connection has ended
	once   sync.Once
	idle   *time.Timer
	armed  atomic.Bool
	uses   atomic.Uint64
	last   atomic.Uint64 // of uses, when idle last fired
}

// idleFor is how long nobody may read after the last call.
const idleFor = 5 * time.Millisecond

func newTurns() *turns {
	t := &turns{free: make(chan struct{}, 1), wake: make(chan struct{}, 1), broken: make(chan struct{})}
	t.free <- struct{}{}
	t.wake <- struct{}{}
	t.idle = time.AfterFunc(time.Hour, t.quiet)
	t.idle.Stop()
	return t
}

// quiet has the client's own goroutine read if nobody did for a while.
func (t *turns) quiet() {
	t.armed.Store(false)
	if uses := t.uses.Load(); t.last.Swap(uses) != uses {
		t.rest()
		return
	}
	poke(t.wake)
}

// rest begins the moment in which nobody reads.
func (t *turns) rest() {
	if t.armed.CompareAndSwap(false, true) {
		t.idle.Reset(idleFor)
	}
}

// take takes the turn if nobody has it.
func (t *turns) take() bool {
	select {
	case <-t.free:
		return true
	default:
		return false
	}
}

// end says that the connection has ended.
func (t *turns) end() { t.once.Do(func() { close(t.broken) }) }

// passOn gives the turn back: to the client's own goroutine if somebody waits.
func (b *Backend) passOn(t *turns) {
	t.free <- struct{}{}
	b.mu.Lock()
	waiting := len(b.calls) > 0
	b.mu.Unlock()
	if waiting {
		poke(t.wake)
	} else {
		t.rest()
	}
}

// read is the client's own goroutine. It ends with the connection.
func (b *Backend) read(w *wire) {
	t := w.turns
	defer t.idle.Stop()
	for {
		select {
		case <-t.broken:
			return
		case <-t.wake:
		}
		for t.take() {
			more := b.readOne(w)
			b.mu.Lock()
			waiting := len(b.calls) > 0
			b.mu.Unlock()
			if more && waiting {
				t.free <- struct{}{}
				continue
			}
			b.passOn(t)
			if !more {
				return
			}
			break
		}
	}
}

// readOne reads one answer and passes it on. It is false at the end.
func (b *Backend) readOne(w *wire) bool {
	body, err := w.receive(maxReply)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = w.conn.SetReadDeadline(time.Time{}) // it was for another reader
		return true
	}
	if err == nil {
		var r reply
		if r, err = parseReply(body); err == nil {
			b.heard.Add(1)
			b.dispatch(&r)
			return true
		}
	}
	w.turns.end()
	return false
}

// readFor reads until c is answered or ctx ends, if the turn is free.
func (b *Backend) readFor(ctx context.Context, c *call) {
	w := c.wire
	if w == nil || !w.turns.take() {
		return
	}
	w.turns.uses.Add(1)
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, w.interrupt)
		defer stop()
	}
	for len(c.done) == 0 && ctx.Err() == nil && b.readOne(w) {
	}
	b.passOn(w.turns)
}

// interrupt has whoever reads look up.
func (w *wire) interrupt() { _ = w.conn.SetReadDeadline(time.Unix(1, 0)) }
