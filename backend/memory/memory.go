// Package memory is the backend inside one process, and the reference for all
// others: its line is the admission rule, kept up to date step by step.
//
// memory:// opens a space of its own; memory://name opens the space of this
// name, which all clients of the process share. Registers live as long as the
// process, or until the last client of an unnamed space is gone.
//
// For tests of an application, [Backend.Inject] and [Backend.Lose] make the
// trouble that a network would.
package memory

import (
	"context"
	"sync/atomic"

	"github.com/gocoord/coord/backend"
)

// A Backend is one client of a space.
type Backend struct {
	space  *space
	named  bool
	closed atomic.Bool   // checked under a shard's lock, set before Close takes them
	done   chan struct{} // closed by Close
	faults script
}

// New returns the first client of a new space. Others join it with
// [Backend.Join].
func New() *Backend { return newBackend(newSpace(nextPrivate()), false) }

// Open returns a client of the process's space of this name.
func Open(name string) *Backend { return newBackend(joinSpace(name), true) }

// Join returns one more client of b's space.
func (b *Backend) Join() *Backend {
	if b.named {
		return Open(b.space.name)
	}
	return newBackend(b.space, false)
}

func newBackend(s *space, named bool) *Backend {
	return &Backend{space: s, named: named, done: make(chan struct{})}
}

// Info implements backend.Backend.
func (b *Backend) Info() backend.Info {
	return backend.Info{Name: "memory", Service: b.space.name, Scope: backend.Process, FIFO: true, Fencing: true}
}

// Acquire implements backend.Backend. Where it need not wait, it costs one
// allocation.
func (b *Backend) Acquire(ctx context.Context, p backend.Place, c backend.Claim) (backend.Lease, error) {
	if err := check(ctx, p, c); err != nil {
		return nil, err
	}
	if f := b.trouble(OpAcquire, p); f != nil {
		return b.faultyAcquire(ctx, p, c, f)
	}
	return b.acquire(ctx, p, c)
}

func check(ctx context.Context, p backend.Place, c backend.Claim) error {
	if ctx.Err() != nil {
		return backend.ContextError(ctx)
	}
	if err := p.Check(); err != nil {
		return err
	}
	return c.Check()
}

func (b *Backend) acquire(ctx context.Context, p backend.Place, c backend.Claim) (backend.Lease, error) {
	l, err := b.enqueue(p, c, nil)
	if err != nil || l.ready == nil {
		return l.orNil(), err
	}
	select {
	case <-l.ready:
		if l.refused {
			return nil, l.err
		}
		if ctx.Err() == nil {
			return l, nil
		}
	case <-ctx.Done():
	}
	_ = l.remove(backend.ErrReleased) // the cancel wins, also over a grant
	return nil, backend.ContextError(ctx)
}

// enqueue puts the claim in line: for a Host, if there is an entry. The lease
// has a ready channel if it waits.
func (b *Backend) enqueue(p backend.Place, c backend.Claim, e *Entry) (*lease, error) {
	sh, k := b.space.at(p)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if b.closed.Load() {
		return nil, backend.ErrClosed
	}
	ln := sh.line(k)
	if c.Mode == backend.Permit && ln.permits.head != nil && ln.limit != c.Limit {
		return nil, backend.LimitMismatch(c.Limit, ln.limit)
	}
	admitted := ln.admits(c)
	if !admitted && c.NoWait {
		return nil, backend.ErrBusy
	}
	l := newLease(b, ln, c, e)
	if e != nil {
		if err := sh.recorder.Enter(e); err != nil {
			ln.settle()
			return nil, err
		}
	}
	ln.push(l)
	if admitted {
		ln.admit(l)
	} else {
		l.ready = parked
		if e == nil {
			l.ready = make(chan struct{})
		}
	}
	ln.changed()
	return l, nil
}

// parked marks the leases that wait without a goroutine.
var parked = make(chan struct{})

// Close implements backend.Backend.
func (b *Backend) Close() error {
	b.end(backend.ErrReleased)
	return nil
}

// End closes b as if its session had been lost: what it holds ends with
// ErrLost and the cause.
func (b *Backend) End(cause error) { b.end(backend.Lost("%w", cause)) }

func (b *Backend) end(why error) {
	if b.closed.Swap(true) {
		return
	}
	close(b.done)
	b.space.expel(b, why)
	if b.named {
		leaveSpace(b.space)
	}
}
