package conformance

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
)

func groupChecks() []check {
	rows := []check{
		{name: "Group/Members", fn: groupMembers,
			why: "Members lists who has joined and not left, in order of arrival, with their data and owners"},
		{name: "Group/Watch", fn: groupWatch,
			why: "Watch yields the members, at first and after each change"},
		{name: "Group/WatchEnds", fn: groupWatchEnds,
			why: "a watch that cannot go on yields an error and ends: ctx's, or ErrClosed"},
		{name: "Group/CloseLeaves", fn: groupCloseLeaves,
			why: "a client that closes leaves all its groups"},
		{name: "Group/Many", fn: groupMany,
			why: "nobody waits to join, and nobody is left out, however many join at once"},
	}
	for i := range rows {
		rows[i].need = append([]need{kind(backend.Group)}, rows[i].need...)
	}
	return rows
}

func (c *client) join(who, data string) *attempt[*coord.Hold] {
	return begin(c.t, who, func(ctx context.Context) (*coord.Hold, error) {
		return c.Group(c.t.name).Join(ctx, []byte(data))
	})
}

func data(members []coord.Member) []string {
	var out []string
	for _, m := range members {
		out = append(out, string(m.Data))
	}
	return out
}

func groupMembers(t *T) {
	a, b := t.open(coord.WithOwner("anna")), t.open(coord.WithOwner("bert"))
	see := func(want ...string) []coord.Member {
		t.Helper()
		b.inLine(t.place(backend.Group), len(want))
		got, err := b.Group(t.name).Members(t.ctx)
		t.ok("Members", err)
		if !slices.Equal(data(got), want) {
			t.Fatalf("the members are %q; want %q", data(got), want)
		}
		return got
	}
	see()
	h1 := a.join("the first", "one").get()
	h2 := b.join("the second", "two").get()
	h3 := a.join("the first, once more", "three").get()
	members := see("one", "two", "three")
	owners := []string{"anna", "bert", "anna"}
	for i, h := range []*coord.Hold{h1, h2, h3} {
		if m := members[i]; m.Owner != owners[i] || m.Token != h.Token() || m.ID == "" {
			t.Errorf("member %d is %+v; want owner %s and token %d", i, m, owners[i], h.Token())
		}
	}
	t.release("the second", h2)
	see("one", "three")
	t.release("the second, again,", h2)
	h4 := b.join("the second, who comes back,", "four").get()
	see("one", "three", "four")
	for _, h := range []*coord.Hold{h1, h3, h4} {
		t.release("a member", h)
	}
	see()
	big := bytes.Repeat([]byte("x"), backend.MaxData)
	a.join("one with much to say", string(big)).get()
	see(string(big))
	begin(t, "one with too much to say", func(ctx context.Context) (*coord.Hold, error) {
		return a.Group(t.name).Join(ctx, append(big, 'x'))
	}).fails(coord.ErrInvalid)
}

func groupWatch(t *T) {
	a, b := t.open(), t.open()
	ch := follow(t, t.ctx, func(ctx context.Context) func(func([]coord.Member, error) bool) { return b.Group(t.name).Watch(ctx) })
	see := func(want ...string) {
		until(t, ch, fmt.Sprintf("the members %q", want), func(m []coord.Member) bool { return slices.Equal(data(m), want) })
	}
	see()
	h1 := a.join("one", "one").get()
	see("one")
	h2 := b.join("two", "two").get()
	see("one", "two")
	t.release("one", h1)
	see("two")
	t.release("two", h2)
	see()
}

func groupWatchEnds(t *T) {
	a := t.open()
	ctx, cancel := context.WithCancel(t.ctx)
	watch := func(ctx context.Context) func(func([]coord.Member, error) bool) { return a.Group(t.name).Watch(ctx) }
	ch := follow(t, ctx, watch)
	until(t, ch, "nobody", func(m []coord.Member) bool { return len(m) == 0 })
	cancel()
	ends(t, ch, context.Canceled)
	ch = follow(t, t.ctx, watch)
	until(t, ch, "nobody", func(m []coord.Member) bool { return len(m) == 0 })
	a.shut()
	ends(t, ch, coord.ErrClosed)
}

func groupCloseLeaves(t *T) {
	a, b := t.open(), t.open()
	h := a.join("a member", "x").get()
	a.join("the same client", "y").get()
	b.join("another client", "z").get()
	a.shut()
	t.over("the membership of a closed client", h, coord.ErrReleased)
	b.inLine(t.place(backend.Group), 1)
}

func groupMany(t *T) {
	cs := t.opens(4)
	const n = 100
	var all []*attempt[*coord.Hold]
	for i := range n {
		all = append(all, cs[i%4].join("one of many", fmt.Sprint(i)))
	}
	for _, a := range all {
		a.get()
	}
	members, err := cs[0].Group(t.name).Members(t.ctx)
	for err == nil && len(members) < n {
		cs[0].inLine(t.place(backend.Group), n)
		members, err = cs[0].Group(t.name).Members(t.ctx)
	}
	t.ok("Members", err)
	seen := make(map[string]bool)
	for _, d := range data(members) {
		seen[d] = true
	}
	if len(seen) != n || len(members) != n {
		t.Errorf("%d members, %d of them different; want %d", len(members), len(seen), n)
	}
}
