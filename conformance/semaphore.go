package conformance

import (
	"context"
	"sync/atomic"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
)

func semaphoreChecks() []check {
	rows := []check{
		{name: "Semaphore/Limit", fn: semaphoreLimit,
			why: "as many permits are held as there are, and no more"},
		{name: "Semaphore/Weights", fn: semaphoreWeights,
			why: "a hold of n takes n permits, and its release frees all of them"},
		{name: "Semaphore/BigNotStarved", fn: semaphoreBigNotStarved, need: []need{fifo},
			why: "permits are given out in order of arrival, so that a claim for many is not starved by those for few"},
		{name: "Semaphore/CancelledBig", fn: semaphoreCancelledBig,
			why: "when a big claim gives up, the small ones behind it that have room are admitted at once"},
		{name: "Semaphore/ReleaseWakesSeveral", fn: semaphoreReleaseWakesSeveral,
			why: "one release admits all who have room, up to the first who has not"},
		{name: "Semaphore/Try", fn: semaphoreTry,
			why: "TryAcquire takes what is free, is busy otherwise, and leaves nothing behind"},
		{name: "Semaphore/Mismatch", fn: semaphoreMismatch,
			why: "all clients give the same limit; one that meets others with another is ErrMismatch"},
		{name: "Semaphore/Invalid", fn: semaphoreInvalid,
			why: "a limit below 1, and a claim for no permits or for more than there are, is ErrInvalid at first use"},
		{name: "Semaphore/Hammer", fn: semaphoreHammer,
			why: "the limit holds, and nobody is forgotten, however short the holds are"},
	}
	for i := range rows {
		rows[i].tough = true
		rows[i].need = append([]need{kind(backend.Semaphore)}, rows[i].need...)
	}
	return rows
}

// permits starts an Acquire of n of the check's semaphore.
func (c *client) permits(who string, n, limit int64) *attempt[*coord.Hold] {
	return begin(c.t, who, func(ctx context.Context) (*coord.Hold, error) { return c.Semaphore(c.t.name, limit).Acquire(ctx, n) })
}

func (c *client) tryPermits(who string, n, limit int64) *attempt[*coord.Hold] {
	return begin(c.t, who, func(ctx context.Context) (*coord.Hold, error) { return c.Semaphore(c.t.name, limit).TryAcquire(ctx, n) })
}

// permitsQueued waits until the claim is number n in line and waits there.
func (c *client) permitsQueued(a *attempt[*coord.Hold], n int) *attempt[*coord.Hold] {
	c.inLine(c.t.place(backend.Semaphore), n)
	a.waits()
	return a
}

func semaphoreLimit(t *T) {
	a, b := t.open(), t.open()
	var holds []*coord.Hold
	for i := range 3 {
		holds = append(holds, []*client{a, b}[i%2].permits("a permit of three", 1, 3).get())
	}
	w := a.permitsQueued(a.permits("a fourth", 1, 3), 4)
	w2 := b.permitsQueued(b.permits("a fifth", 1, 3), 5)
	t.release("a permit", holds[1])
	w.get()
	w2.waits()
	t.release("a permit", holds[0])
	w2.get()
	t.held("the one that was never released", holds[2])
	seen := make(map[uint64]bool)
	for _, h := range append(holds, w.value, w2.value) {
		if seen[h.Token()] || h.Token() == 0 {
			t.Errorf("token %d is 0 or there twice", h.Token())
		}
		seen[h.Token()] = true
	}
}

func semaphoreWeights(t *T) {
	a, b := t.open(), t.open()
	three := a.permits("three of five", 3, 5).get()
	two := b.permits("two of five", 2, 5).get()
	all := a.permitsQueued(a.permits("all five", 5, 5), 3)
	t.release("three of five", three)
	all.waits()
	t.release("two of five", two)
	t.release("all five", all.get())
	b.permits("all five", 5, 5).get()
}

func semaphoreBigNotStarved(t *T) {
	a, b := t.open(), t.open()
	s1, s2 := a.permits("one of three", 1, 3).get(), a.permits("one of three", 1, 3).get()
	big := b.permitsQueued(b.permits("all three", 3, 3), 3)
	small := a.permitsQueued(a.permits("one behind the big claim", 1, 3), 4)
	t.release("one of three", s1)
	big.waits()
	small.waits()
	t.release("one of three", s2)
	hold := big.get()
	small.waits()
	t.release("all three", hold)
	small.get()
}

// golang/go#37852.
func semaphoreCancelledBig(t *T) {
	a, b := t.open(), t.open()
	hold := a.permits("two of three", 2, 3).get()
	big := b.permitsQueued(b.permits("all three", 3, 3), 2)
	small := a.permitsQueued(a.permits("one behind the big claim", 1, 3), 3)
	next := b.permitsQueued(b.permits("one more", 1, 3), 4)
	big.cancel()
	big.fails(context.Canceled)
	t.held("the small claim", small.get())
	t.held("two of three", hold)
	next.waits()
	t.release("two of three", hold)
	next.get()
}

func semaphoreReleaseWakesSeveral(t *T) {
	a, b := t.open(), t.open()
	hold := a.permits("all four", 4, 4).get()
	w1 := b.permitsQueued(b.permits("one", 1, 4), 2)
	w2 := a.permitsQueued(a.permits("two", 2, 4), 3)
	w3 := b.permitsQueued(b.permits("two more", 2, 4), 4)
	w4 := a.permitsQueued(a.permits("one more", 1, 4), 5)
	t.release("all four", hold)
	one := w1.get()
	w2.get()
	w3.waits()
	w4.waits()
	t.release("one", one)
	w3.get()
	w4.waits()
}

func semaphoreTry(t *T) {
	a, b := t.open(), t.open()
	two := a.tryPermits("two of three", 2, 3).get()
	b.tryPermits("two more", 2, 3).fails(coord.ErrBusy)
	one := b.tryPermits("one more", 1, 3).get()
	a.tryPermits("a fourth", 1, 3).fails(coord.ErrBusy)
	a.inLine(t.place(backend.Semaphore), 2)
	t.release("two of three", two)
	t.release("one", one)
	b.tryPermits("all three", 3, 3).get()
}

func semaphoreMismatch(t *T) {
	a, b := t.open(), t.open()
	hold := a.permits("one of three", 1, 3).get()
	b.permits("one of four", 1, 4).fails(coord.ErrMismatch)
	b.tryPermits("one of two", 1, 2).fails(coord.ErrMismatch)
	t.held("one of three", hold)
	a.inLine(t.place(backend.Semaphore), 1)
	t.release("one of three", hold)
	b.permits("one of four, when nobody is there,", 1, 4).get()
}

func semaphoreInvalid(t *T) {
	c := t.open()
	for _, bad := range []struct{ n, limit int64 }{{0, 1}, {-1, 1}, {2, 1}, {1, 0}, {1, -1}} {
		c.permits("an impossible claim", bad.n, bad.limit).fails(coord.ErrInvalid)
		c.tryPermits("an impossible claim that tries", bad.n, bad.limit).fails(coord.ErrInvalid)
	}
	c.inLine(t.place(backend.Semaphore), 0)
}

func semaphoreHammer(t *T) {
	each := 40
	if t.h.small {
		each = 8
	} else if t.h.Expect.Scope > backend.Process {
		each = 10
	}
	const limit = 3
	var used atomic.Int64
	var all []*attempt[struct{}]
	for i, c := range t.opens(8) {
		s := c.Semaphore(t.name, limit)
		all = append(all, beginError(t, "one of many", func(ctx context.Context) error {
			for k := range each {
				n := int64((i+k)%limit + 1)
				hold, err := s.Acquire(ctx, n)
				if err != nil {
					return err
				}
				if now := used.Add(n); now > limit {
					t.Errorf("%d permits are held of %d", now, limit)
				}
				used.Add(-n)
				t.release("one of many", hold)
			}
			return nil
		}))
	}
	for _, a := range all {
		if !within(t.patience()/2, a.done) || a.err != nil {
			t.Fatalf("one of many did not end well: %v; all goroutines:\n%s", a.outcome(), stacks())
		}
	}
	t.opens(1)[0].free(t.place(backend.Semaphore))
}
