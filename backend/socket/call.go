//go:build linux || darwin

package socket

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocoord/coord/backend"
)

// A call is a request that was not answered yet. It goes from server to server
// until one answers: each finds what an earlier one did for it.
type call struct {
	*request
	done   chan answer
	wire   *wire     // that it was first sent on
	since  time.Time // when it was made
	resent bool      // to a second server, so that the first perhaps did it
	detach bool      // nobody waits for it
}

type answer struct {
	reply *reply
	lease *lease // of an opAcquire that was granted
	err   error
}

// answer ends the wait for c. Only the first answer counts.
func (c *call) answer(a answer) {
	select {
	case c.done <- a:
	default:
	}
}

// start sends a request.
func (b *Backend) start(q *request) (*call, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, backend.ErrClosed
	}
	c := b.newCallLocked(q)
	if b.link != nil {
		c.wire, _ = b.link.(*wire)
		b.link.request(q)
	}
	return c, nil
}

// startLocked sends a request if there is a server to send it to.
func (b *Backend) startLocked(q *request) *call {
	if b.link == nil {
		return nil
	}
	c := b.newCallLocked(q)
	c.wire, _ = b.link.(*wire)
	b.link.request(q)
	b.nudgeLocked(c)
	return c
}

// nudgeLocked sees to it that somebody reads the answer of a call that nobody
// waits for.
func (b *Backend) nudgeLocked(c *call) {
	if c.wire != nil {
		poke(c.wire.turns.wake)
	}
}

func (b *Backend) newCallLocked(q *request) *call {
	b.number++
	q.number = b.number
	c := &call{request: q, done: make(chan answer, 1), since: time.Now()}
	b.calls[q.number] = c
	if !b.watching && !b.closed {
		b.watching = true
		b.watchdog.Reset(patience / 4)
	}
	return c
}

// await waits for the answer, or ctx.
func (b *Backend) await(ctx context.Context, c *call) (*reply, error) {
	b.readFor(ctx, c)
	select {
	case a := <-c.done:
		if a.err != nil {
			return nil, a.err
		}
		return a.reply, a.reply.err()
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.calls[c.number] == c {
		switch c.op {
		case opObserve, opGone, opLoad:
			b.cancelLocked(c.number)
		case opStore, opPlaces, opPing:
			delete(b.calls, c.number)
		default:
			c.detach = true // goes on in the background
		}
	}
	return nil, backend.ContextError(ctx)
}

// ask sends a request and waits for the answer.
func (b *Backend) ask(ctx context.Context, q *request) (*reply, *call, error) {
	c, err := b.start(q)
	if err != nil {
		return nil, nil, err
	}
	r, err := b.await(ctx, c)
	return r, c, err
}

// dispatch passes an answer to whoever waits for it. A grant becomes a lease
// in the same step, so that there is no moment in which it is neither.
func (b *Backend) dispatch(r *reply) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.calls[r.number]
	if c == nil {
		return // nobody waits any more
	}
	delete(b.calls, r.number)
	a := answer{reply: r}
	if c.op == opAcquire && r.op == opOK {
		a.lease = &lease{b: b, seq: c.number, token: r.token, mode: c.claim.Mode, done: make(chan struct{})}
		b.leases[c.number] = a.lease
	}
	c.answer(a)
}

// settle makes a new link the one in use, after the server has said which
// claims of this client it knows and has admitted.
func (b *Backend) settle(l link, peer string, held []uint64) {
	known := make(map[uint64]bool, len(held))
	for _, seq := range held {
		known[seq] = true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.peer, b.cause = peer, nil
	for seq, ls := range b.leases {
		if !known[seq] {
			ls.endLocked(backend.Lost("%s does not know of it: what the last one wrote down was removed", peer))
		}
	}
	b.link = l
	numbers := make([]uint64, 0, len(b.calls))
	for n := range b.calls {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		c := b.calls[n]
		c.resent = true
		l.request(c.request)
	}
}

// lose ends all that this client holds and waits for.
func (b *Backend) lose(cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.endLocked(backend.Lost("%w", cause), backend.Unavailable(b.at.path, cause))
}

// endLocked ends leases with why, and calls with refusal.
func (b *Backend) endLocked(why, refusal error) {
	for _, ls := range b.leases {
		ls.endLocked(why)
	}
	for n, c := range b.calls {
		delete(b.calls, n)
		c.answer(answer{err: refusal})
	}
	b.interruptLocked()
}

// interruptLocked has a caller that reads for others look whether it still
// has to.
func (b *Backend) interruptLocked() {
	if w, ok := b.link.(*wire); ok {
		w.interrupt()
	}
}

// unreachable notes why there is no server, and tells the calls that have
// waited for one for too long.
func (b *Backend) unreachable(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cause = err
	b.giveUpLocked(time.Now().Add(-patience), err)
}

// giveUpLocked fails the calls made before a time. A claim that may be in line
// by then is dropped when a server can be reached.
func (b *Backend) giveUpLocked(before time.Time, why error) {
	if !errors.Is(why, backend.ErrUnavailable) {
		why = backend.Unavailable(b.at.path, why)
	}
	for n, c := range b.calls {
		if c.detach || c.since.After(before) {
			continue
		}
		switch c.op {
		case opDrop: // goes on in the background
			c.detach = true
		case opAcquire:
			delete(b.calls, n)
			b.nudgeLocked(b.dropLocked(n))
		case opObserve, opGone, opLoad:
			b.cancelLocked(n)
		default:
			delete(b.calls, n)
		}
		c.answer(answer{err: why})
	}
	b.interruptLocked()
}

// cancelLocked ends a watch. The server has to know: it would keep it for as
// long as the connection lasts.
func (b *Backend) cancelLocked(number uint64) {
	delete(b.calls, number)
	if b.link != nil {
		b.link.request(&request{op: opCancel, number: number})
	}
}

// dropLocked takes a claim out of line, in the background.
func (b *Backend) dropLocked(seq uint64) *call {
	q := &request{op: opDrop, seq: seq}
	c := b.newCallLocked(q)
	c.detach = true
	if b.link != nil {
		c.wire, _ = b.link.(*wire)
		b.link.request(q)
	}
	return c
}

// perhaps makes a conflict of a repeated request what it is: the first may
// have been carried out.
func (c *call) perhaps(at layout, err error) error {
	if c != nil && c.resent && errors.Is(err, backend.ErrConflict) {
		return backend.Unavailable(at.path, fmt.Errorf("the server has changed in between, and it was perhaps done: %w", errors.New("conflict")))
	}
	return err
}
