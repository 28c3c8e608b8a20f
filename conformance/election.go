package conformance

import (
	"context"
	"fmt"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
)

func electionChecks() []check {
	rows := []check{
		{name: "Election/Leader", fn: electionLeader,
			why: "Leader tells who leads, with what it campaigned with, and nil when nobody does; who waits does not lead"},
		{name: "Election/Watch", fn: electionWatch,
			why: "Watch yields who leads, at first and after each change, and nil for nobody"},
		{name: "Election/WatchEnds", fn: electionWatchEnds,
			why: "a watch that cannot go on yields an error and ends: ctx's, or ErrClosed"},
		{name: "Election/CloseResigns", fn: electionCloseResigns,
			why: "a leader that closes its client resigns, and the next candidate leads"},
	}
	for i := range rows {
		rows[i].need = append([]need{kind(backend.Election)}, rows[i].need...)
	}
	return rows
}

// A news is what a watch yields.
type news[V any] struct {
	value V
	err   error
}

// follow collects what a watch yields, until the check has ended. An unread
// item does not hold up the watch.
func follow[V any](t *T, ctx context.Context, watch func(context.Context) func(func(V, error) bool)) <-chan news[V] {
	out := make(chan news[V], 1000)
	t.tasks.Go(func() {
		defer close(out)
		for v, err := range watch(ctx) {
			out <- news[V]{v, err}
		}
	})
	return out
}

// until reads news until one is as wanted.
func until[V any](t *T, ch <-chan news[V], want string, ok func(V) bool) {
	t.await(want, func(stop <-chan struct{}) bool {
		for {
			select {
			case n, open := <-ch:
				if !open || n.err != nil {
					t.Fatalf("the watch ended with %v before it yielded %s", n.err, want)
				}
				if ok(n.value) {
					return true
				}
			case <-stop:
				return false
			}
		}
	})
}

// ends reads news until the watch has ended, and wants this error for the last.
func ends[V any](t *T, ch <-chan news[V], want error) {
	t.await("the end of the watch", func(stop <-chan struct{}) bool {
		var last error
		for {
			select {
			case n, open := <-ch:
				if !open {
					t.isError("the watch", last, want)
					return true
				}
				if last != nil {
					t.Fatalf("the watch goes on after the error %v", last)
				}
				last = n.err
			case <-stop:
				return false
			}
		}
	})
}

func (c *client) campaign(who, data string) *attempt[*coord.Hold] {
	return begin(c.t, who, func(ctx context.Context) (*coord.Hold, error) {
		return c.Election(c.t.name).Campaign(ctx, []byte(data))
	})
}

func electionLeader(t *T) {
	a, b := t.open(coord.WithOwner("anna")), t.open()
	p := t.place(backend.Election)
	for _, c := range []*client{a, b} {
		m, err := c.Election(t.name).Leader(t.ctx)
		t.ok("Leader", err)
		if m != nil {
			t.Fatalf("Leader of a fresh election is %+v; want nil", m)
		}
	}
	lead := a.campaign("the first candidate", "host-a:1").get()
	second := b.campaign("the second candidate", "host-b:2")
	b.inLine(p, 2)
	m, err := b.Election(t.name).Leader(t.ctx)
	t.ok("Leader", err)
	if m == nil || string(m.Data) != "host-a:1" || m.Owner != "anna" || m.Token != lead.Token() || m.ID == "" {
		t.Fatalf("Leader is %+v; want host-a:1 of anna, token %d", m, lead.Token())
	}
	t.release("the leader", lead)
	hold := second.get()
	m, err = b.Election(t.name).Leader(t.ctx)
	t.ok("Leader", err)
	if m == nil || string(m.Data) != "host-b:2" || m.Token != hold.Token() {
		t.Fatalf("Leader is %+v; want host-b:2, token %d", m, hold.Token())
	}
	t.release("the second leader", hold)
	a.free(p)
	if m, err = a.Election(t.name).Leader(t.ctx); err != nil || m != nil {
		t.Errorf("Leader when all have resigned: %+v, %v; want nil", m, err)
	}
}

func electionWatch(t *T) {
	a, b := t.open(), t.open()
	ch := follow(t, t.ctx, func(ctx context.Context) func(func(*coord.Member, error) bool) { return b.Election(t.name).Watch(ctx) })
	until(t, ch, "nobody", func(m *coord.Member) bool { return m == nil })
	for i := range 3 {
		data := fmt.Sprintf("leader %d", i)
		hold := a.campaign(data, data).get()
		until(t, ch, data, func(m *coord.Member) bool { return m != nil && string(m.Data) == data && m.Token == hold.Token() })
		next := a.campaign("the next leader", "next")
		a.inLine(t.place(backend.Election), 2)
		t.release(data, hold)
		until(t, ch, "the next leader", func(m *coord.Member) bool { return m != nil && string(m.Data) == "next" })
		t.release("the next leader", next.get())
		until(t, ch, "nobody again", func(m *coord.Member) bool { return m == nil })
	}
}

func electionWatchEnds(t *T) {
	a, b := t.open(), t.open()
	ctx, cancel := context.WithCancel(t.ctx)
	watch := func(c *client) func(context.Context) func(func(*coord.Member, error) bool) {
		return func(ctx context.Context) func(func(*coord.Member, error) bool) { return c.Election(t.name).Watch(ctx) }
	}
	ch := follow(t, ctx, watch(a))
	until(t, ch, "nobody", func(m *coord.Member) bool { return m == nil })
	cancel()
	ends(t, ch, context.Canceled)
	ch = follow(t, t.ctx, watch(b))
	until(t, ch, "nobody", func(m *coord.Member) bool { return m == nil })
	b.shut()
	ends(t, ch, coord.ErrClosed)
	for m, err := range a.Election(t.name).Watch(t.ctx) {
		if m != nil || err != nil {
			t.Errorf("a new watch yields %+v, %v; want nobody", m, err)
		}
		break
	}
}

func electionCloseResigns(t *T) {
	a, b := t.open(), t.open()
	lead := a.campaign("the leader", "a").get()
	next := b.campaign("the next", "b")
	b.inLine(t.place(backend.Election), 2)
	next.waits()
	a.shut()
	t.over("the leader", lead, coord.ErrReleased)
	next.get()
}
