package coord

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gocoord/coord/backend"
)

// All is one Locker over several: all are held or none. Whoever uses All takes
// them in the same order, by backend and name, so that two of them never wait
// for each other in a circle, whatever order their arguments came in. The hold
// is lost when any of its parts is, and then gives back the others. A lock that
// occurs twice is ErrInvalid. Lockers of other makes come last, in the order
// given.
func All(lockers ...Locker) Locker {
	a := &all{}
	for _, l := range lockers {
		if inner, ok := l.(*all); ok {
			a.lockers = append(a.lockers, inner.lockers...)
			continue
		}
		a.lockers = append(a.lockers, l)
	}
	a.order = make([]int, len(a.lockers))
	for i := range a.order {
		a.order[i] = i
	}
	slices.SortStableFunc(a.order, func(i, j int) int { return compare(a.lockers[i], a.lockers[j]) })
	a.err = a.check()
	return a
}

type all struct {
	lockers []Locker // as given
	order   []int    // in which they are taken
	err     error
}

// handleOf returns the place behind a locker of this package.
func handleOf(l Locker) *handle {
	switch l := l.(type) {
	case *locker:
		return &l.handle
	case *rwLocker:
		return &l.handle
	case readers:
		if rw, ok := l.rw.(*rwLocker); ok {
			return &rw.handle
		}
	}
	return nil
}

func compare(a, b Locker) int {
	x, y := handleOf(a), handleOf(b)
	switch {
	case x == nil && y == nil:
		return 0
	case x == nil:
		return 1
	case y == nil:
		return -1
	}
	return cmp.Or(
		cmp.Compare(x.c.info.Name, y.c.info.Name),
		cmp.Compare(x.c.info.Service, y.c.info.Service),
		cmp.Compare(x.place.Name, y.place.Name))
}

func (a *all) check() error {
	if len(a.lockers) == 0 {
		return fmt.Errorf("%w: All of no locks", ErrInvalid)
	}
	for k, i := range a.order {
		h := handleOf(a.lockers[i])
		if h == nil {
			break
		}
		if h.err != nil {
			return h.err
		}
		if k > 0 && compare(a.lockers[a.order[k-1]], a.lockers[i]) == 0 {
			return fmt.Errorf("%w: lock %q occurs twice, and would wait for itself", ErrInvalid, h.place.Name)
		}
	}
	return nil
}

func (a *all) Lock(ctx context.Context) (*Hold, error) {
	return a.take("lock all", func(l Locker) (*Hold, error) { return l.Lock(ctx) })
}

func (a *all) TryLock(ctx context.Context) (*Hold, error) {
	return a.take("try lock all", func(l Locker) (*Hold, error) { return l.TryLock(ctx) })
}

func (a *all) take(op string, lock func(Locker) (*Hold, error)) (*Hold, error) {
	if a.err != nil {
		return nil, &Error{Op: op, Err: a.err}
	}
	parts := make([]*Hold, len(a.lockers))
	for k, i := range a.order {
		h, err := lock(a.lockers[i])
		if err == nil {
			parts[i] = h
			continue
		}
		for _, j := range slices.Backward(a.order[:k]) {
			err = gather(err, parts[j].Release())
		}
		return nil, err
	}
	return newAllHold(parts), nil
}

// allLease is the lease of a hold of All.
type allLease struct {
	parts []*Hold
	done  chan struct{}

	mu      sync.Mutex
	err     error         // set before done is closed
	stopped chan struct{} // closed when follow has returned
}

func newAllHold(parts []*Hold) *Hold {
	l := &allLease{parts: parts, done: make(chan struct{}), stopped: make(chan struct{})}
	go l.follow()
	// The handle of the first part names the whole in messages.
	return &Hold{handle: parts[0].handle, lease: l}
}

// follow ends the hold when any part ends. It runs until the hold has ended.
func (l *allLease) follow() {
	defer close(l.stopped)
	ended := make(chan *Hold, len(l.parts))
	var wg sync.WaitGroup
	for _, p := range l.parts {
		wg.Go(func() {
			select {
			case <-p.Done():
				ended <- p
			case <-l.done:
			}
		})
	}
	select {
	case p := <-ended:
		if l.finish(p.Err()) {
			_ = l.giveBack()
		}
	case <-l.done:
	}
	wg.Wait()
}

// finish ends the hold with err, and reports whether it was the first to.
func (l *allLease) finish(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false
	}
	l.err = err
	close(l.done)
	return true
}

func (l *allLease) giveBack() error {
	var err error
	for _, p := range slices.Backward(l.parts) {
		err = gather(err, p.Release())
	}
	return err
}

func (l *allLease) ID() string { return l.parts[0].lease.ID() }

func (l *allLease) Token() uint64 {
	var greatest uint64
	for _, p := range l.parts {
		greatest = max(greatest, p.Token())
	}
	return greatest
}

// Deadline is the earliest of the parts'.
func (l *allLease) Deadline() (deadline time.Time, ok bool) {
	for _, p := range l.parts {
		if d, limited := p.Deadline(); limited && (!ok || d.Before(deadline)) {
			deadline, ok = d, true
		}
	}
	return deadline, ok
}

func (l *allLease) Done() <-chan struct{} { return l.done }

// Err asks the parts, so that a loss shows before follow has run.
func (l *allLease) Err() error {
	l.mu.Lock()
	err := l.err
	l.mu.Unlock()
	for _, p := range l.parts {
		if err == nil {
			err = p.Err()
		}
	}
	return err
}

func (l *allLease) Downgrade(ctx context.Context) error {
	var err error
	for _, p := range l.parts {
		err = gather(err, p.Downgrade(ctx))
	}
	return err
}

func (l *allLease) Withdraw(context.Context, backend.Version) error {
	return fmt.Errorf("%w: a hold of All is in several lines", ErrUnsupported)
}

func (l *allLease) Release(context.Context) error {
	if !l.finish(ErrReleased) {
		<-l.stopped
		if err := l.Err(); errors.Is(err, ErrLost) {
			return err
		}
		return nil
	}
	<-l.stopped
	return l.giveBack()
}
