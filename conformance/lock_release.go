package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/gocoord/coord"
)

func lockReleaseAgain(t bench) {
	a := t.open()
	hold := t.take(a, "the hold")
	t.held("the hold", hold)
	if hold.Name() != t.p.Name {
		t.Errorf("Name is %q; want %q", hold.Name(), t.p.Name)
	}
	for range 3 {
		t.release("the hold", hold)
		t.over("the hold", hold, coord.ErrReleased)
	}
	if errors.Is(hold.Err(), coord.ErrLost) {
		t.Errorf("Err of a released hold is %v", hold.Err())
	}
	a.free(t.p)
}

// The class of etcd-io/etcd#14652: an unlock by name frees the next holder.
func lockReleaseOfTheGrant(t bench) {
	a, b, c := t.open(), t.open(), t.open()
	old := t.take(a, "the first")
	t.release("the first", old)
	now := t.take(b, "the second")
	w := t.queue(c, 2, "the third")
	t.release("the first, again,", old)
	w.waits()
	t.held("the second", now)
	again := t.queue(a, 3, "the first, who comes back,")
	t.release("the first, once more,", old)
	again.waits()
	t.release("the second", now)
	t.release("the third", w.get())
	t.held("the first, who came back,", again.get())
}

func lockReleaseTogether(t bench) {
	a, b := t.open(), t.open()
	for range 20 {
		hold := t.take(a, "the hold")
		r1 := beginError(t.T, "one of two Releases", ignoringContext(hold.Release))
		r2 := beginError(t.T, "one of two Releases", ignoringContext(hold.Release))
		next := t.lock(b, "the next")
		for _, r := range []*attempt[struct{}]{r1, r2} {
			if !within(t.h.Slack, r.done) {
				t.Fatalf("a Release still waits after %v", t.h.Slack)
			}
			if r.err != nil && !(t.h.flaky && errors.Is(r.err, coord.ErrUnavailable)) {
				t.Fatalf("one of two Releases: %v; want nil", r.err)
			}
		}
		h := next.get()
		t.held("the next", h)
		t.release("the next", h)
		a.free(t.p)
	}
}

func lockReleaseAfterClose(t bench) {
	a, b := t.open(), t.open()
	hold := t.take(a, "the hold")
	a.shut()
	next := t.take(b, "the next")
	t.release("the hold of a closed client", hold)
	t.held("the next", next)
	t.try(b, "an attempt").fails(coord.ErrBusy)
}

func lockTokensGrow(t bench) {
	cs := t.opens(3)
	last := uint64(0)
	see := func(h *coord.Hold) {
		if h.Token() <= last {
			t.Fatalf("a hold has token %d after %d; want a greater one", h.Token(), last)
		}
		last = h.Token()
	}
	for i := range 9 {
		hold := t.take(cs[i%3], "a hold")
		see(hold)
		w := t.queue(cs[(i+1)%3], 2, "a hold that waited")
		t.release("a hold", hold)
		see(w.get())
		t.release("a hold that waited", w.value)
		if i%3 == 2 {
			h := t.try(cs[0], "an attempt").get()
			see(h)
			cs[0].shut()
			cs[0] = t.open()
		}
	}
}

func lockTokensGrowOverRestarts(t bench) {
	last := uint64(0)
	for range 4 {
		c := t.open()
		hold := t.take(c, "a hold")
		if hold.Token() <= last {
			t.Fatalf("after everybody had left a hold has token %d, and the one before had %d; want a greater one", hold.Token(), last)
		}
		last = hold.Token()
		c.shut()
		// Where nothing is kept the clock has to do.
		time.Sleep(time.Millisecond)
	}
}

func lockCloseEndsHolds(t bench) {
	a, b := t.open(), t.open()
	hold := t.take(a, "the holder")
	w := t.queue(b, 2, "the waiter")
	a.shut()
	t.over("the hold of a closed client", hold, coord.ErrReleased)
	t.held("the waiter", w.get())
	b.inLine(t.p, 1)
	t.lock(a, "Lock on a closed client").fails(coord.ErrClosed)
	t.try(a, "TryLock on a closed client").fails(coord.ErrClosed)
	b.inLine(t.p, 1)
}

func lockCloseEndsWaits(t bench) {
	a, b := t.open(), t.open()
	hold := t.take(a, "the holder")
	w := t.queue(b, 2, "the waiter")
	last := t.queue(a, 3, "the last")
	b.shut()
	w.fails(coord.ErrClosed)
	a.inLine(t.p, 2)
	t.release("the holder", hold)
	last.get()
}

func lockHoldContext(t bench) {
	c := t.open()
	hold := t.take(c, "the hold")
	ctx, cancel := hold.Context(t.ctx)
	defer cancel()
	child, stop := hold.Context(ctx)
	parent, end := context.WithCancel(t.ctx)
	other, drop := hold.Context(parent)
	defer drop()
	end()
	if !within(t.h.Slack, other.Done()) || ctx.Err() != nil {
		t.Errorf("a hold's context ended with %v when the parent of another did", ctx.Err())
	}
	stop()
	if child.Err() == nil || ctx.Err() != nil {
		t.Errorf("cancelling a child gives %v, and %v for its parent", child.Err(), ctx.Err())
	}
	t.held("the hold whose contexts were cancelled", hold)
	t.release("the hold", hold)
	if !within(t.h.Slack, ctx.Done()) {
		t.Fatalf("the hold's context goes on after Release")
	}
	if cause := context.Cause(ctx); !errors.Is(cause, coord.ErrReleased) {
		t.Errorf("the cause is %v; want ErrReleased", cause)
	}
	late, cancel := hold.Context(t.ctx)
	defer cancel()
	if late.Err() == nil {
		t.Errorf("the context of a released hold goes on")
	}
}

func lockWith(t bench) {
	a, b := t.open(), t.open()
	reason := errors.New("f's error")
	ran := false
	err := coord.With(t.ctx, t.on(a), func(ctx context.Context, h *coord.Hold) error {
		ran = true
		t.held("the hold of With", h)
		t.try(b, "an attempt meanwhile").fails(coord.ErrBusy)
		return reason
	})
	if !ran || !errors.Is(err, reason) {
		t.Errorf("With: ran %v, error %v; want f's error", ran, err)
	}
	a.free(t.p)
	func() {
		defer func() {
			if recover() == nil {
				t.Errorf("With swallowed a panic")
			}
		}()
		_ = coord.With(t.ctx, t.on(a), func(context.Context, *coord.Hold) error { panic("f panics") })
	}()
	a.free(t.p)
	err = coord.With(t.ctx, t.on(b), func(ctx context.Context, h *coord.Hold) error {
		t.release("the hold, early,", h)
		if !within(t.h.Slack, ctx.Done()) {
			t.Errorf("f's context goes on after the hold")
		}
		return nil
	})
	t.ok("With whose f released early", err)
	hold := t.take(a, "the holder")
	ctx, cancel := context.WithTimeout(t.ctx, 20*time.Millisecond)
	defer cancel()
	err = coord.With(ctx, t.on(b), func(context.Context, *coord.Hold) error {
		t.Errorf("f runs without the lock")
		return nil
	})
	t.isError("With that could not lock", err, context.DeadlineExceeded)
	t.release("the holder", hold)
}
