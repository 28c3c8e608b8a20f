package memory

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocoord/coord/backend"
)

// An Op is an operation of a Backend or a Lease that a Fault can hit.
type Op uint8

// The operations. AnyOp stands for all of them.
const (
	AnyOp Op = iota
	OpAcquire
	OpObserve
	OpGone
	OpLoad
	OpStore
	OpDowngrade
	OpWithdraw
	OpRelease
)

// A Fault is trouble to be had, for testing what an application does about it.
type Fault struct {
	Op    Op
	Place backend.Place // the zero Place: anywhere
	Delay time.Duration // before the operation
	Err   error         // the answer in its stead; nil: only the delay
	After bool          // the operation takes effect, and then Err is answered
	Times int           // how often; 0: until Heal
}

// Inject makes the operations of this client suffer f. Of several faults that
// fit an operation the one injected first strikes.
func (b *Backend) Inject(f Fault) {
	s := &b.faults
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
	s.any.Store(true)
}

// Heal ends all injected faults.
func (b *Backend) Heal() {
	s := &b.faults
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
	s.any.Store(false)
}

// Lose ends all leases that this client holds at a place, as if its session
// had been lost, and returns how many there were.
func (b *Backend) Lose(p backend.Place, cause error) int {
	sh, k := b.space.at(p)
	err := backend.Lost("%w", cause)
	sh.mu.Lock()
	var (
		woken *lease
		n     int
	)
	if ln := sh.lines[k]; ln != nil {
		for l := ln.all.tail; l != nil; {
			prev := l.links.prev
			if l.backend == b && l.state == held {
				woken = l.endLocked(err, err, woken)
				n++
			}
			l = prev
		}
	}
	sh.mu.Unlock()
	wake(woken)
	return n
}

type script struct {
	any    atomic.Bool // there are faults; spares the lock where there are none
	mu     sync.Mutex
	faults []*Fault
}

// trouble returns the fault that strikes an operation, or nil.
func (b *Backend) trouble(op Op, p backend.Place) *Fault {
	s := &b.faults
	if !s.any.Load() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.faults {
		if f.Op != AnyOp && f.Op != op || f.Place != (backend.Place{}) && f.Place != p {
			continue
		}
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				s.faults = slices.Delete(s.faults, i, i+1)
			}
		}
		return f
	}
	return nil
}

// around runs an operation with its fault. Instead runs in place of one that
// fails before it took effect.
func (f *Fault) around(ctx context.Context, operation func() error, instead func()) error {
	if f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			if instead != nil {
				instead()
			}
			return backend.ContextError(ctx)
		}
	}
	switch {
	case f.Err == nil:
		return operation()
	case f.After:
		if err := operation(); err != nil {
			return err
		}
	case instead != nil:
		instead()
	}
	return f.Err
}

// faultyAcquire gives back what it acquired when it has to fail.
func (b *Backend) faultyAcquire(ctx context.Context, p backend.Place, c backend.Claim, f *Fault) (backend.Lease, error) {
	var l backend.Lease
	err := f.around(ctx, func() (err error) { l, err = b.acquire(ctx, p, c); return err }, nil)
	if err != nil && l != nil {
		_ = l.(*lease).remove(backend.ErrReleased)
		l = nil
	}
	return l, err
}
