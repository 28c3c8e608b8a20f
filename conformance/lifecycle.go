package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gocoord/coord/backend"
)

func acquireTokens(t *T) {
	p := t.place(backend.Mutex)
	cs := t.opens(2)
	last, ids := uint64(0), make(map[string]bool)
	for i := range 12 {
		if i%4 == 3 {
			cs[i%2].shut()
			cs[i%2] = t.open()
		}
		lease := cs[i%2].take(fmt.Sprintf("lease %d", i), p, exclusiveClaim)
		if lease.Token() <= last {
			t.Fatalf("lease %d has token %d after %d; want a greater one", i, lease.Token(), last)
		}
		if ids[lease.ID()] {
			t.Fatalf("lease %d has the ID %q of an earlier one", i, lease.ID())
		}
		last, ids[lease.ID()] = lease.Token(), true
		t.give("the lease", lease)
	}
}

func acquireLifecycle(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Mutex)
	lease := a.take("the lease", p, exclusiveClaim)
	t.held("the lease", lease)
	next := b.queue(2, "the next", p, exclusiveClaim)
	t.held("the lease that another waits for", lease)
	t.give("the lease", lease)
	t.over("the lease", lease, backend.ErrReleased)
	holder := next.get()
	if err := lease.Release(t.ctx); err != nil {
		t.Errorf("the second Release: %v; want nil", err)
	}
	t.held("the next", holder)
	if err := lease.Err(); errors.Is(err, backend.ErrLost) {
		t.Errorf("Err of a lease that was released is %v", err)
	}
}

func acquireReleaseOnlyItself(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Mutex)
	old := a.take("the first", p, exclusiveClaim)
	t.give("the first", old)
	holder := b.take("the second", p, exclusiveClaim)
	w := a.queue(2, "the third", p, exclusiveClaim)
	if err := old.Release(t.ctx); err != nil {
		t.Errorf("the second Release: %v; want nil", err)
	}
	w.waits()
	t.held("the second", holder)
	a.inLine(p, 2)
}

func acquireKindsDoNotMeet(t *T) {
	c := t.open()
	for _, k := range backend.Kinds() {
		if !t.h.Expect.Supports(k) {
			continue
		}
		claim := noWait(exclusiveClaim)
		if k == backend.RWMutex && t.h.Expect.Supports(backend.Mutex) {
			c.acquire("a second claim, of the kind rwlock,", t.place(k), claim).fails(backend.ErrBusy)
			c.inLine(t.place(k), 1)
			continue
		}
		c.take("a "+k.String(), t.place(k), claim)
		c.inLine(t.place(k), 1)
		v := c.register(t.place(k))
		if v.Data != nil {
			t.Errorf("the register of a fresh %v holds %q", k, v.Data)
		}
		c.store(t.place(k), []byte(k.String()), v.Version)
	}
	for _, k := range backend.Kinds() {
		if k == backend.RWMutex || !t.h.Expect.Supports(k) {
			continue
		}
		v := c.register(t.place(k))
		if string(v.Data) != k.String() {
			t.Errorf("the register of the %v holds %q; want %q", k, v.Data, k)
		}
		c.store(t.place(k), nil, v.Version)
	}
}

func acquireConcurrent(t *T) {
	cs := t.opens(4)
	p := t.place(backend.Mutex)
	var inside, grants atomic.Int64
	work := func(c *client) func(context.Context) error {
		return func(ctx context.Context) error {
			for i := range 10 {
				claim := exclusiveClaim
				claim.NoWait = i%5 == 4
				l, err := c.b.Acquire(ctx, p, claim)
				if errors.Is(err, backend.ErrBusy) && claim.NoWait {
					continue
				}
				if err != nil {
					return err
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d hold it at once", n)
				}
				grants.Add(1)
				if _, err := c.b.Observe(ctx, p, ""); err != nil {
					return err
				}
				inside.Add(-1)
				if err := l.Release(ctx); err != nil {
					return err
				}
			}
			return nil
		}
	}
	var all []*attempt[struct{}]
	for i := range 12 {
		all = append(all, beginError(t, "a worker", work(cs[i%4])))
	}
	for _, a := range all {
		if !within(t.patience()/2, a.done) || a.err != nil {
			t.Fatalf("a worker did not end well: %v", a.outcome())
		}
	}
	cs[0].free(p)
}

func acquireLeaseDeadline(t *T) {
	c := t.open()
	lease := c.take("the lease", t.place(backend.Mutex), exclusiveClaim)
	first, ok := lease.Deadline()
	if !ok {
		return
	}
	expiry := t.h.Expect.Expiry
	if left := time.Until(first); left <= 0 || left > expiry {
		t.Fatalf("Deadline is %v from now; want it in the future, and no more than Expiry, %v, away", left, expiry)
	}
	if !within(expiry+t.h.Slack, lease.Done()) {
		if now, _ := lease.Deadline(); !now.After(first) {
			t.Errorf("Deadline is still %v after %v; want it to move with the session", now, expiry+t.h.Slack)
		}
		return
	}
	t.Errorf("the lease of an idle client ended: %v", lease.Err())
}
