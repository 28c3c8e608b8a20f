package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gocoord/coord/backend"
)

func goneChecks() []check {
	group := []need{kind(backend.Group)}
	return []check{
		{name: "Gone/NotThere", need: group, fn: goneNotThere,
			why: "Gone returns nil at once for what is not in line"},
		{name: "Gone/Waits", need: group, fn: goneWaits,
			why: "Gone returns once no entry with this ID is in line, and is woken by that entry alone"},
		{name: "Gone/CancelledWaiter", need: []need{kind(backend.Mutex)}, fn: goneCancelled,
			why: "Gone returns when the entry leaves without ever having been admitted"},
		{name: "Gone/Context", need: group, fn: goneContext,
			why: "a watch that ends is an error; a ctx that has ended fails"},
		{name: "Gone/ThenObserve", need: group, fn: goneThenObserve,
			why: "a client never goes back in time: after Gone, Observe does not show the entry"},
		{name: "Gone/Many", need: group, fn: goneMany,
			why: "many can wait for many"},
	}
}

// gone starts a Gone.
func (c *client) gone(who string, p backend.Place, id string) *attempt[struct{}] {
	return beginError(c.t, who, func(ctx context.Context) error { return c.b.Gone(ctx, p, id) })
}

func goneNotThere(t *T) {
	c := t.open()
	p := t.place(backend.Group)
	for _, id := range []string{"", "never", "../x", "-1", "a/b"} {
		c.gone(fmt.Sprintf("Gone(%q) at a fresh place", id), p, id).get()
	}
	l := c.take("a member", p, presentClaim)
	t.give("the member", l)
	c.gone("Gone of one who has left", p, l.ID()).get()
	c.take("another member", p, presentClaim)
	c.gone("Gone of one who has left, with another in line,", p, l.ID()).get()
}

func goneWaits(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Group)
	before := a.take("one before", p, presentClaim)
	l := a.take("the one waited for", p, presentClaim)
	after := b.take("one after", p, presentClaim)
	w, own := b.gone("Gone", p, l.ID()), a.gone("Gone of an own entry", p, l.ID())
	w.waits()
	t.give("one before", before)
	t.give("one after", after)
	b.take("a newcomer", p, presentClaim)
	c := b.register(p)
	b.store(p, []byte("x"), c.Version)
	w.waits()
	own.waits()
	t.give("the one waited for", l)
	w.get()
	own.get()
}

func goneCancelled(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Mutex)
	holder := a.take("the holder", p, exclusiveClaim)
	w := a.queue(2, "the waiter", p, exclusiveClaim)
	line := b.inLine(p, 2)
	g := b.gone("Gone of the waiter", p, line[1].ID)
	g.waits()
	w.cancel()
	w.fails(context.Canceled)
	g.get()
	t.held("the holder", holder)
}

func goneContext(t *T) {
	c := t.open()
	p := t.place(backend.Group)
	l := c.take("a member", p, presentClaim)
	w := c.gone("Gone", p, l.ID())
	w.waits()
	w.cancel()
	w.fails(context.Canceled)
	ctx, cancel := context.WithTimeout(t.ctx, 30*time.Millisecond)
	defer cancel()
	beginError(t, "Gone with a deadline", func(context.Context) error { return c.b.Gone(ctx, p, l.ID()) }).fails(context.DeadlineExceeded)
	if err := c.b.Gone(ctx, p, "nobody"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Gone with a ctx that has ended: %v; want its error", err)
	}
}

func goneThenObserve(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Group)
	for range 20 {
		l := a.take("a member", p, presentClaim)
		b.inLine(p, 1)
		w := b.gone("Gone", p, l.ID())
		t.give("the member", l)
		w.get()
		if roster := b.observe("Observe", p, "").get(); roster.Index(l.ID()) >= 0 {
			t.Fatalf("after Gone, Observe shows %s", show(roster.Entries))
		}
	}
}

func goneMany(t *T) {
	cs := t.opens(4)
	p := t.place(backend.Group)
	const n = 24
	var leases []backend.Lease
	for i := range n {
		leases = append(leases, cs[i%4].take("a member", p, presentClaim))
	}
	var waits [][]*attempt[struct{}]
	for i, l := range leases {
		waits = append(waits, nil)
		for _, c := range cs {
			waits[i] = append(waits[i], c.gone("one of many waits", p, l.ID()))
		}
	}
	for i, l := range leases {
		t.give("a member", l)
		for _, w := range waits[i] {
			w.get()
		}
		if i+1 < n {
			waits[i+1][0].waits()
		}
	}
}
