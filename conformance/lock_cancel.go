package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gocoord/coord"
)

// The class of etcd-io/etcd#10111 and CURATOR-79: some of these are cancelled
// before their entry is made, some in between, some while they wait.
func lockCancelLeavesNothing(t bench) {
	a, b, c := t.open(), t.open(), t.open()
	holder := t.take(a, "the holder")
	delays := []time.Duration{0, 10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
		10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond}
	var cancelled []*attempt[*coord.Hold]
	for i := range 50 {
		w := t.lock(b, fmt.Sprintf("the one cancelled after %v", delays[i%len(delays)]))
		cancelled = append(cancelled, w)
		t.tasks.Go(func() {
			time.Sleep(delays[i%len(delays)])
			w.cancel()
		})
	}
	for _, w := range cancelled {
		w.fails(context.Canceled)
	}
	a.inLine(t.p, 1)
	t.release("the holder", holder)
	next := t.take(c, "the next")
	if line := a.inLine(t.p, 1); line[0].Token != next.Token() {
		t.Errorf("the line is %s; want the next holder alone", show(line))
	}
}

func lockCancelMakesRoom(t bench) {
	a, b := t.open(), t.open()
	holder := t.take(a, "the holder")
	gone := t.queue(b, 2, "the one to cancel")
	next := t.queue(a, 3, "the next")
	last := t.queue(b, 4, "the last")
	gone.cancel()
	gone.fails(context.Canceled)
	b.inLine(t.p, 3)
	next.waits()
	t.release("the holder", holder)
	next.get()
	last.waits()
	t.release("the next", next.value)
	last.get()
}

func lockCancelWins(t bench) {
	a, b := t.open(), t.open()
	for range 5 {
		holder := t.take(a, "the holder")
		w := t.queue(b, 2, "the cancelled one")
		w.cancel()
		t.release("the holder", holder)
		w.fails(context.Canceled)
		a.free(t.p)
		t.release("an attempt", t.try(a, "an attempt after the cancelled one").get())
	}
}

func lockDeadContext(t bench) {
	c := t.open()
	dead, cancel := context.WithCancel(t.ctx)
	cancel()
	late, cancel := context.WithDeadline(t.ctx, time.Now().Add(-time.Hour))
	defer cancel()
	for _, lock := range []func(context.Context) (*coord.Hold, error){t.on(c).Lock, t.on(c).TryLock} {
		if h, err := lock(dead); h != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("with a cancelled ctx: %v, %v; want no hold and context.Canceled", h, err)
		}
		if h, err := lock(late); h != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the deadline: %v, %v; want no hold and context.DeadlineExceeded", h, err)
		}
	}
	c.free(t.p)
}

func lockDeadline(t bench) {
	c := t.open()
	t.take(c, "the holder")
	cause := errors.New("the caller's reason")
	ctx, cancel := context.WithTimeoutCause(t.ctx, 50*time.Millisecond, cause)
	defer cancel()
	w := begin(t.T, "the claim with a deadline", func(context.Context) (*coord.Hold, error) { return t.on(c).Lock(ctx) })
	w.fails(context.DeadlineExceeded)
	if !errors.Is(w.err, cause) {
		t.Errorf("the error is %q; want the ctx's cause in it", w.err)
	}
	if ctx.Err() == nil {
		t.Errorf("the claim gave up before its deadline")
	}
	c.inLine(t.p, 1)
}

func lockContextBoundsWaitOnly(t bench) {
	c := t.open()
	first := t.take(c, "the first")
	second := t.queue(c, 2, "the second")
	t.release("the first", first)
	hold := second.get()
	second.cancel()
	t.settle()
	t.held("the hold whose ctx has ended", hold)
	t.try(c, "an attempt meanwhile").fails(coord.ErrBusy)
	t.release("the hold whose ctx has ended", hold)
}

func lockTryBusy(t bench) {
	a, b := t.open(), t.open()
	holder := t.take(a, "the holder")
	w := t.queue(b, 2, "the waiter")
	for _, c := range []*client{a, b} {
		t.try(c, "an attempt at what is held").fails(coord.ErrBusy)
	}
	a.inLine(t.p, 2)
	w.waits()
	t.release("the holder", holder)
	t.release("the waiter", w.get())
	t.release("an attempt", t.try(a, "an attempt when all have gone").get())
}

func lockTryFree(t bench) {
	a, b := t.open(), t.open()
	for range 3 {
		for _, c := range []*client{a, b} {
			hold := t.try(c, "an attempt at what is free").get()
			t.held("what an attempt got", hold)
			t.release("what an attempt got", hold)
		}
	}
}

func lockTryDoesNotJump(t bench) {
	a, b := t.open(), t.open()
	for range 5 {
		holder := t.take(a, "the holder")
		w := t.queue(b, 2, "the waiter")
		t.release("the holder", holder)
		t.try(a, "an attempt while the waiter is next").fails(coord.ErrBusy)
		t.release("the waiter", w.get())
		a.free(t.p)
	}
}
