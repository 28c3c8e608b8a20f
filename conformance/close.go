package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/gocoord/coord/backend"
)

func closeChecks() []check {
	lock := []need{kind(backend.Mutex)}
	return []check{
		{name: "Close/ReleasesLeases", need: lock, fn: closeReleases,
			why: "Close releases every lease: Done closes, Err is ErrReleased, the next is admitted"},
		{name: "Close/EndsWaits", need: lock, fn: closeEndsWaits,
			why: "Close fails every call in progress with ErrClosed, never with a grant, and takes the waiting out of line"},
		{name: "Close/ThenCalls", need: lock, fn: closeThenCalls,
			why: "every call on a closed client answers ErrClosed, and leaves nothing"},
		{name: "Close/Twice", need: lock, fn: closeTwice,
			why: "Close may be called again, and from several goroutines"},
		{name: "Close/OnlyItself", need: lock, fn: closeOnlyItself,
			why: "two Backends are strangers: closing one ends nothing of the other"},
		{name: "Close/LeasesEnd", need: lock, fn: closeLeasesEnd,
			why: "the lease of a closed Backend was released: its Release is nil, and touches nobody"},
		{name: "Close/NotAdmittedInPassing", need: lock, fn: closeNotInPassing,
			why: "a client that closes with a holder and those who wait behind it is never handed the lock on its way out"},
		{name: "Close/NothingLeft", need: lock, fn: closeNothingLeft,
			why: "when a client has closed, no goroutine and no descriptor of it is left in the process"},
	}
}

func closeReleases(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Mutex)
	l := a.take("the holder", p, exclusiveClaim)
	w := b.queue(2, "the waiter", p, exclusiveClaim)
	a.shut()
	t.over("the lease of a closed client", l, backend.ErrReleased)
	t.held("the waiter", w.get())
	b.inLine(p, 1)
}

func closeEndsWaits(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Mutex)
	holder := a.take("the holder", p, exclusiveClaim)
	w := b.queue(2, "the waiter", p, exclusiveClaim)
	o := b.observe("Observe", p, b.observe("Observe", p, "").get().Version)
	g := b.gone("Gone", p, holder.ID())
	l := b.load("Load", p, b.register(p).Version)
	o.waits()
	g.waits()
	l.waits()
	b.shut()
	w.fails(backend.ErrClosed)
	g.fails(backend.ErrClosed)
	l.fails(backend.ErrClosed)
	// The client's own departure is a change that Observe may still have seen.
	if within(t.h.Slack, o.done) && o.err != nil {
		t.isError("Observe", o.err, backend.ErrClosed)
	}
	a.inLine(p, 1)
	t.held("the holder", holder)
	t.give("the holder", holder)
	a.take("the next", p, exclusiveClaim)
}

func closeThenCalls(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Mutex)
	version := a.register(p).Version
	a.shut()
	a.acquire("Acquire on a closed client", p, exclusiveClaim).fails(backend.ErrClosed)
	a.acquire("Acquire with NoWait on a closed client", p, noWait(exclusiveClaim)).fails(backend.ErrClosed)
	a.observe("Observe on a closed client", p, "").fails(backend.ErrClosed)
	a.gone("Gone on a closed client", p, "nobody").fails(backend.ErrClosed)
	a.load("Load on a closed client", p, "").fails(backend.ErrClosed)
	if _, err := a.b.Store(t.ctx, p, []byte("x"), version); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("Store on a closed client: %v; want ErrClosed", err)
	}
	b.free(p)
	if v := b.register(p); v.Data != nil {
		t.Errorf("Store on a closed client left %q", v.Data)
	}
}

func closeTwice(t *T) {
	a := t.open()
	a.take("the holder", t.place(backend.Mutex), exclusiveClaim)
	a.closed = true
	var closing []*attempt[struct{}]
	for range 3 {
		closing = append(closing, beginError(t, "one of several Closes", ignoringContext(a.b.Close)))
	}
	for _, c := range closing {
		c.get()
	}
	if err := a.b.Close(); err != nil {
		t.Errorf("a later Close: %v; want nil", err)
	}
}

func closeOnlyItself(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Mutex)
	other := backend.Place{Kind: p.Kind, Name: p.Name + "-other"}
	mine := b.take("the holder", p, exclusiveClaim)
	a.take("another lock", other, exclusiveClaim)
	w := b.queue(2, "the waiter", p, exclusiveClaim)
	a.shut()
	t.settle()
	t.held("the holder", mine)
	w.waits()
	b.inLine(other, 0)
	t.give("the holder", mine)
	w.get()
}

func closeLeasesEnd(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Mutex)
	l := a.take("the holder", p, exclusiveClaim)
	a.shut()
	next := b.take("the next", p, exclusiveClaim)
	if err := l.Release(t.ctx); err != nil {
		t.Errorf("Release after Close: %v; want nil", err)
	}
	if err := l.Downgrade(t.ctx); err == nil {
		t.Errorf("Downgrade after Close succeeded; want an error")
	}
	t.held("the next", next)
	if line := b.inLine(p, 1); line[0].Claim.Mode != backend.Exclusive {
		t.Errorf("the line is %s; want the next holder's exclusive entry", show(line))
	}
}

func closeNotInPassing(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Mutex)
	a.take("the holder", p, exclusiveClaim)
	var mine []*attempt[backend.Lease]
	for i := range 5 {
		mine = append(mine, a.queue(2+i, "a waiter of the client that closes", p, exclusiveClaim))
	}
	next := b.queue(7, "the next", p, exclusiveClaim)
	a.shut()
	for _, w := range mine {
		w.fails(backend.ErrClosed)
	}
	next.get()
	time.Sleep(time.Millisecond)
	b.inLine(p, 1)
}

// closeNothingLeft wants no growth with the number of clients, rather than a
// count, since a program may have more to do than this check. What grows once
// may be of others; what grows each time is not.
func closeNothingLeft(t *T) {
	const tries = 3
	var grown string
	for range tries {
		if grown = closeGrowth(t); grown == "" {
			return
		}
	}
	t.Fatalf("%s", grown)
}

func closeGrowth(t *T) (grown string) {
	const clients = 8
	p := t.place(backend.Mutex)
	use := func() {
		c := t.open()
		holder := c.take("the holder", p, exclusiveClaim)
		c.queue(2, "a waiter", p, exclusiveClaim)
		w := c.queue(3, "a waiter that gives up", p, exclusiveClaim)
		w.cancel()
		w.fails(context.Canceled)
		o := c.observe("Observe", p, c.observe("Observe", p, "").get().Version)
		o.cancel()
		within(t.h.Slack, o.done)
		c.gone("Gone", p, holder.ID())
		c.load("Load", p, c.register(p).Version)
		c.shut()
		t.cleanup(0) // what the harness set up for the client
	}
	use() // what a driver makes once for all
	t.settle()
	goroutines, descriptors := runtime.NumGoroutine(), openDescriptors()
	for range clients {
		use()
	}
	deadline := time.Now().Add(t.h.Slack)
	for {
		more, open := runtime.NumGoroutine()-goroutines, openDescriptors()-descriptors
		if more < clients && open < clients {
			return ""
		}
		if time.Now().After(deadline) {
			return fmt.Sprintf("%d clients came and went, and there are %d goroutines and %d descriptors more than before; all goroutines:\n%s",
				clients, more, open, stacks())
		}
		t.settle()
	}
}

// openDescriptors counts them where the system tells.
func openDescriptors() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}
