package conformance

import (
	"errors"

	"github.com/gocoord/coord/backend"
)

func tryChecks() []check {
	return []check{
		{name: "NoWait/Free", need: []need{kind(backend.Mutex)}, fn: noWaitFree,
			why: "with NoWait a claim that the rule admits is admitted"},
		{name: "NoWait/Busy", need: []need{kind(backend.Mutex)}, fn: noWaitBusy,
			why: "with NoWait Acquire answers ErrBusy instead of waiting, and leaves nothing behind"},
		{name: "NoWait/DoesNotJump", need: []need{kind(backend.RWMutex), fifo}, fn: noWaitDoesNotJump,
			why: "NoWait never jumps the line: those who wait are ahead, too"},
		{name: "NoWait/PermitsDoNotJump", need: []need{kind(backend.Semaphore), fifo}, fn: noWaitPermits,
			why: "NoWait never jumps the line: permits that are free belong to the big claim that waits"},
		{name: "NoWait/OneOfMany", need: []need{kind(backend.Mutex)}, fn: noWaitOneOfMany,
			why: "of many that try at once exactly one succeeds"},
	}
}

func noWaitFree(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Mutex)
	for range 3 {
		t.give("the lease", a.take("an attempt at what is free", p, noWait(exclusiveClaim)))
		t.give("the lease", b.take("an attempt at what is free again", p, noWait(exclusiveClaim)))
	}
	if t.h.Expect.Supports(backend.RWMutex) {
		a.take("the first reader", p, noWait(sharedClaim))
		b.take("the second reader", p, noWait(sharedClaim))
	}
}

func noWaitBusy(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Mutex)
	holder := a.take("the holder", p, exclusiveClaim)
	for _, c := range []*client{a, b} {
		for range 3 {
			c.acquire("an attempt at what is held", p, noWait(exclusiveClaim)).fails(backend.ErrBusy)
		}
	}
	if line := b.inLine(p, 1); line[0].ID != holder.ID() {
		t.Errorf("the line is %s; want the holder alone", show(line))
	}
	t.held("the holder", holder)
	next := b.queue(2, "the next", p, exclusiveClaim)
	t.give("the holder", holder)
	next.get()
}

func noWaitDoesNotJump(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.RWMutex)
	reader := a.take("a reader", p, sharedClaim)
	w := b.queue(2, "a writer", p, exclusiveClaim)
	a.acquire("a reader that tries behind a waiting writer", p, noWait(sharedClaim)).fails(backend.ErrBusy)
	w.waits()
	a.inLine(p, 2)
	t.give("the reader", reader)
	a.acquire("a reader that tries after the line has moved", p, noWait(sharedClaim)).fails(backend.ErrBusy)
	t.give("the writer", w.get())
	t.give("a reader", a.take("a reader that tries when all have gone", p, noWait(sharedClaim)))
}

func noWaitPermits(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Semaphore)
	two := a.take("two of three", p, permits(2, 3))
	big := b.queue(2, "all three", p, permits(3, 3))
	a.acquire("one that tries behind the big claim", p, noWait(permits(1, 3))).fails(backend.ErrBusy)
	big.waits()
	b.inLine(p, 2)
	t.give("two of three", two)
	t.give("all three", big.get())
	b.take("one of three", p, noWait(permits(1, 3)))
}

func noWaitOneOfMany(t *T) {
	cs := t.opens(4)
	p := t.place(backend.Mutex)
	for range 5 {
		var tries []*attempt[backend.Lease]
		for i := range 8 {
			tries = append(tries, cs[i%4].acquire("one of many that try", p, noWait(exclusiveClaim)))
		}
		var won []backend.Lease
		for _, a := range tries {
			if !within(t.h.Slack, a.done) {
				t.Fatalf("an attempt still waits after %v; want ErrBusy or success", t.h.Slack)
			}
			if a.err == nil {
				won = append(won, a.value)
			} else if !errors.Is(a.err, backend.ErrBusy) {
				t.Fatalf("an attempt: %v; want ErrBusy or success", a.err)
			}
		}
		if len(won) != 1 {
			t.Fatalf("%d of 8 succeeded; want 1", len(won))
		}
		t.give("the winner", won[0])
		cs[0].free(p)
	}
}
