package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/gocoord/coord/backend"
)

// The class of etcd-io/etcd#10111: an interrupted wait leaves its entry.
func acquireCancelLeavesNothing(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Mutex)
	holder := a.take("the holder", p, exclusiveClaim)
	for i := range 10 {
		w := b.acquire("the cancelled one", p, exclusiveClaim)
		if i%2 == 0 {
			b.inLine(p, 2)
		}
		w.cancel()
		w.fails(context.Canceled)
		a.inLine(p, 1)
	}
	t.give("the holder", holder)
	b.take("the next one", p, exclusiveClaim)
	a.inLine(p, 1)
}

func acquireCancelWins(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Mutex)
	for range 10 {
		holder := a.take("the holder", p, exclusiveClaim)
		w := b.queue(2, "the cancelled one", p, exclusiveClaim)
		w.cancel()
		t.give("the holder", holder)
		w.fails(context.Canceled)
		a.free(p)
	}
}

func acquireCancelRace(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Mutex)
	for i := range 30 {
		holder := a.take("the holder", p, exclusiveClaim)
		w := b.acquire("the one to cancel", p, exclusiveClaim)
		b.inLine(p, 2)
		next := a.acquire("the next one", p, exclusiveClaim)
		a.inLine(p, 3)
		t.tasks.Go(func() {
			for range i {
				time.Sleep(time.Microsecond)
			}
			w.cancel()
		})
		t.give("the holder", holder)
		if !within(t.h.Slack, w.done) {
			t.Fatalf("a cancelled claim still waits after %v", t.h.Slack)
		}
		if w.err == nil {
			next.waits()
			t.give("the one that was faster than its cancel", w.value)
		}
		t.give("the next one", next.get())
		a.free(p)
	}
}

func acquireDeadContext(t *T) {
	c := t.open()
	p := t.place(backend.Mutex)
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	l, err := c.b.Acquire(ctx, p, exclusiveClaim)
	if l != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire with a cancelled ctx: %v, %v; want no lease and context.Canceled", l, err)
	}
	late, cancel := context.WithDeadline(t.ctx, time.Now().Add(-time.Second))
	defer cancel()
	l, err = c.b.Acquire(late, p, noWait(exclusiveClaim))
	if l != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire after its deadline: %v, %v; want no lease and context.DeadlineExceeded", l, err)
	}
	t.settle()
	if line := c.now(p); len(line) != 0 {
		t.Errorf("the line is %s; want it empty", show(line))
	}
}

func acquireDeadline(t *T) {
	c := t.open()
	p := t.place(backend.Mutex)
	c.take("the holder", p, exclusiveClaim)
	ctx, cancel := context.WithTimeout(t.ctx, 100*time.Millisecond)
	defer cancel()
	w := begin(t, "the claim with a deadline", func(context.Context) (backend.Lease, error) {
		return c.b.Acquire(ctx, p, exclusiveClaim)
	})
	w.fails(context.DeadlineExceeded)
	if ctx.Err() == nil {
		t.Errorf("the claim gave up before its deadline")
	}
	c.inLine(p, 1)
}

func acquireContextBoundsWaitOnly(t *T) {
	c := t.open()
	p := t.place(backend.Mutex)
	first := c.take("the first", p, exclusiveClaim)
	second := c.queue(2, "the second", p, exclusiveClaim)
	t.give("the first", first)
	lease := second.get()
	second.cancel()
	t.settle()
	t.held("the lease whose ctx has ended", lease)
	c.acquire("another claim", p, noWait(exclusiveClaim)).fails(backend.ErrBusy)
	t.give("the lease whose ctx has ended", lease)
}

func acquireReleaseDeadContext(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Mutex)
	lease := a.take("the lease", p, exclusiveClaim)
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	if err := lease.Release(ctx); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("Release with a dead ctx: %v; want nil, the ctx's error or ErrUnavailable", err)
	}
	t.over("the lease", lease, backend.ErrReleased)
	b.take("the next", p, exclusiveClaim)
	if err := lease.Release(t.ctx); err != nil {
		t.Errorf("the second Release: %v; want nil", err)
	}
	b.inLine(p, 1)
}
