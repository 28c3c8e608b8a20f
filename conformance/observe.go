package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gocoord/coord/backend"
)

func observeChecks() []check {
	lock, group := []need{kind(backend.Mutex)}, []need{kind(backend.Group)}
	return []check{
		{name: "Observe/Empty", need: lock, fn: observeEmpty,
			why: "the empty Version answers at once, of a place that nobody ever used, too"},
		{name: "Observe/Wakes", need: lock, fn: observeWakes,
			why: "Observe returns once the line's version differs from since: after an arrival, an admission, a departure"},
		{name: "Observe/WakesMany", need: group, fn: observeWakesMany,
			why: "Observe returns to all who wait for a change"},
		{name: "Observe/Waits", need: lock, fn: observeWaits,
			why: "Observe waits while the line is as it was"},
		{name: "Observe/OldVersion", need: group, fn: observeOldVersion,
			why: "Observe answers at once when the line has changed since, however long ago"},
		{name: "Observe/Context", need: lock, fn: observeContext,
			why: "a watch ends with its ctx, with its error; a ctx that has ended fails"},
		{name: "Observe/Order", need: []need{kind(backend.RWMutex)}, fn: observeOrder,
			why: "a Roster is the line in order of arrival, and Admitted is what the rule says"},
		{name: "Observe/OwnChanges", need: group, fn: observeOwnChanges,
			why: "a client never goes back in time: it sees its own entry after Acquire, and never again after it has gone"},
		{name: "Observe/CallersOwn", need: group, fn: observeCallersOwn,
			why: "a Roster is the caller's own: who writes into it changes nobody else's"},
		{name: "Observe/NeverGoesBack", need: group, fn: observeNeverGoesBack,
			why: "a client never goes back in time between two Observes: who has left does not come back"},
		{name: "Observe/LineAndRegister", need: group, fn: observeLineAndRegister,
			why: "a client never goes back in time between Observe, Gone and Load: who sees a change sees what was before it"},
	}
}

// observe starts an Observe.
func (c *client) observe(who string, p backend.Place, since backend.Version) *attempt[backend.Roster] {
	return begin(c.t, who, func(ctx context.Context) (backend.Roster, error) { return c.b.Observe(ctx, p, since) })
}

func observeEmpty(t *T) {
	c := t.open()
	roster := c.observe("Observe of a fresh place", t.place(backend.Mutex), "").get()
	if len(roster.Entries) != 0 {
		t.Errorf("the line of a fresh place is %s", show(roster.Entries))
	}
	if roster.Version == "" {
		t.Errorf("the version of an empty line is empty; want one that Observe takes as since")
	}
	w := c.observe("Observe of an empty line", t.place(backend.Mutex), roster.Version)
	w.waits()
	lease := c.take("the first", t.place(backend.Mutex), exclusiveClaim)
	if got := w.get(); got.Index(lease.ID()) < 0 {
		t.Errorf("Observe returned %s after an arrival; want the newcomer in it", show(got.Entries))
	}
}

func observeWakes(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Mutex)
	since := a.observe("Observe", p, "").get().Version
	next := func(what string, ok func([]backend.Entry) bool) {
		t.Helper()
		for {
			roster := a.observe("Observe until "+what, p, since).get()
			if roster.Version == since {
				t.Fatalf("Observe returned the version it was given")
			}
			if since = roster.Version; ok(roster.Entries) {
				return
			}
		}
	}
	holder := b.take("the holder", p, exclusiveClaim)
	next("somebody holds", func(l []backend.Entry) bool { return len(l) == 1 && l[0].Admitted })
	w := b.acquire("the waiter", p, exclusiveClaim)
	next("somebody waits", func(l []backend.Entry) bool { return len(l) == 2 && !l[1].Admitted })
	t.give("the holder", holder)
	next("the waiter holds", func(l []backend.Entry) bool { return len(l) == 1 && l[0].Admitted })
	t.give("the waiter", w.get())
	next("nobody is left", func(l []backend.Entry) bool { return len(l) == 0 })
}

func observeWakesMany(t *T) {
	cs := t.opens(3)
	p := t.place(backend.Group)
	var all []*attempt[backend.Roster]
	for _, c := range cs {
		since := c.observe("Observe", p, "").get().Version
		for range 10 {
			all = append(all, c.observe("one of many who watch", p, since))
		}
	}
	cs[0].take("a member", p, presentClaim)
	for _, a := range all {
		if got := a.get(); len(got.Entries) != 1 {
			t.Errorf("one who watches sees %s; want the member", show(got.Entries))
		}
	}
}

func observeWaits(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Mutex)
	a.take("the holder", p, exclusiveClaim)
	roster := b.observe("Observe", p, "").get()
	w := b.observe("Observe of a line that does not change", p, roster.Version)
	other := backend.Place{Kind: p.Kind, Name: p.Name + "-other"}
	b.take("a claim at another place", other, exclusiveClaim)
	// A watch may be early where the service counts in larger steps; it then
	// has to show a new version of the same line.
	t.settle()
	select {
	case <-w.done:
		if got := w.get(); got.Version == roster.Version {
			t.Errorf("Observe returned the version it was given, with %s", show(got.Entries))
		}
	default:
	}
}

func observeOldVersion(t *T) {
	c := t.open()
	p := t.place(backend.Group)
	old := c.observe("Observe", p, "").get().Version
	for range 5 {
		t.give("a member", c.take("a member", p, presentClaim))
	}
	last := c.take("the last member", p, presentClaim)
	if got := c.observe("Observe since long ago", p, old).get(); got.Index(last.ID()) < 0 {
		t.Errorf("Observe since long ago sees %s; want the last member", show(got.Entries))
	}
}

func observeContext(t *T) {
	c := t.open()
	p := t.place(backend.Mutex)
	roster := c.observe("Observe", p, "").get()
	w := c.observe("Observe", p, roster.Version)
	w.waits()
	w.cancel()
	w.fails(context.Canceled)
	ctx, cancel := context.WithTimeout(t.ctx, 30*time.Millisecond)
	defer cancel()
	begin(t, "Observe with a deadline", func(context.Context) (backend.Roster, error) {
		return c.b.Observe(ctx, p, roster.Version)
	}).fails(context.DeadlineExceeded)
	if _, err := c.b.Observe(ctx, p, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Observe with a ctx that has ended: %v; want its error", err)
	}
}

func observeOrder(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.RWMutex)
	claims := []backend.Claim{sharedClaim, sharedClaim, exclusiveClaim, sharedClaim, exclusiveClaim}
	for i, claim := range claims {
		claim.Owner = strconv.Itoa(i)
		c := []*client{a, b}[i%2]
		c.acquire("a claim", p, claim)
		c.inLine(p, i+1)
	}
	line := b.line(p, "two admitted", func(l []backend.Entry) bool {
		return len(l) == len(claims) && l[0].Admitted && l[1].Admitted
	}).Entries
	want := slices.Clone(line)
	backend.Admit(want)
	for i, e := range line {
		if e.Claim.Owner != strconv.Itoa(i) || e.Admitted != want[i].Admitted || i > 0 && e.Token <= line[i-1].Token {
			t.Fatalf("the line is %s; want owners 0 to 4 in order, the first two admitted, and growing tokens", show(line))
		}
	}
}

func observeOwnChanges(t *T) {
	c := t.open()
	p := t.place(backend.Group)
	for range 20 {
		l := c.take("a member", p, presentClaim)
		if roster := c.observe("Observe", p, "").get(); roster.Index(l.ID()) < 0 {
			t.Fatalf("after Acquire the same client sees %s; want its entry %s", show(roster.Entries), l.ID())
		}
		t.give("the member", l)
		c.gone("Gone", p, l.ID()).get()
		if roster := c.observe("Observe", p, "").get(); roster.Index(l.ID()) >= 0 {
			t.Fatalf("after Gone the same client sees %s", show(roster.Entries))
		}
	}
}

func observeCallersOwn(t *T) {
	c := t.open()
	p := t.place(backend.Group)
	claim := presentClaim
	claim.Data = []byte("data")
	c.take("a member", p, claim)
	look := func() []byte {
		roster := c.observe("Observe", p, "").get()
		if len(roster.Entries) != 1 {
			t.Fatalf("the line of one member is %s", show(roster.Entries))
		}
		return roster.Entries[0].Claim.Data
	}
	var wg sync.WaitGroup
	var seen [8][]byte
	for i := range seen {
		wg.Go(func() { seen[i] = look() })
	}
	wg.Wait()
	for i, data := range append(seen[:], look()) {
		if string(data) != "data" {
			t.Fatalf("the Data of a member, read by %d, is %q after another wrote into what it had read; want %q", i, data, "data")
		}
		clear(data)
	}
}

func observeNeverGoesBack(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Group)
	const rounds = 30
	watcher := beginError(t, "the watcher", func(ctx context.Context) error {
		var since backend.Version
		newest, left := uint64(0), make(map[string]bool)
		present := make(map[string]bool)
		for i := 0; ; i++ {
			if i%3 == 2 {
				since = ""
			}
			roster, err := b.b.Observe(ctx, p, since)
			if err != nil {
				return err
			}
			since = roster.Version
			here, top := make(map[string]bool), newest
			for _, e := range roster.Entries {
				here[e.ID], top = true, max(top, e.Token)
				if left[e.ID] {
					t.Errorf("%s is in line again after it had left", e.ID)
				}
				if !present[e.ID] && e.Token <= newest {
					t.Errorf("%s appears after a later arrival was seen", e.ID)
				}
				if string(e.Claim.Data) == "last" {
					return nil
				}
			}
			for id := range present {
				left[id] = left[id] || !here[id]
			}
			present, newest = here, top
		}
	})
	for range rounds {
		l := a.take("a member", p, presentClaim)
		t.give("the member", l)
	}
	a.take("the last member", p, backend.Claim{Mode: backend.Presence, Data: []byte("last")})
	watcher.get()
}

func observeLineAndRegister(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Group)
	version := a.register(p).Version
	b.register(p)
	read := func(after string) int {
		n, _ := strconv.Atoi(string(b.register(p).Data))
		t.Helper()
		_ = after
		return n
	}
	for i := 1; i <= 15; i++ {
		version = a.store(p, []byte(strconv.Itoa(2*i)), version)
		l := a.take("a member", p, presentClaim)
		b.line(p, "the member", func(line []backend.Entry) bool { return len(line) == 1 })
		if n := read("Observe"); n < 2*i {
			t.Fatalf("Load returned %d after Observe had shown an entry made after %d was stored", n, 2*i)
		}
		version = a.store(p, []byte(strconv.Itoa(2*i+1)), version)
		t.give("the member", l)
		b.gone("Gone", p, l.ID()).get()
		if n := read("Gone"); n < 2*i+1 {
			t.Fatalf("Load returned %d after Gone had told of a departure made after %d was stored", n, 2*i+1)
		}
		// And the other way round.
		l = a.take("another member", p, presentClaim)
		version = a.store(p, fmt.Appendf(nil, "%d", 2*i+1), version)
		for b.register(p).Version != version {
			time.Sleep(time.Millisecond)
		}
		if roster := b.observe("Observe", p, "").get(); roster.Index(l.ID()) < 0 {
			t.Fatalf("Observe returned %s after Load had shown what was stored after %s came", show(roster.Entries), l.ID())
		}
		t.give("the other member", l)
		b.free(p)
	}
	a.store(p, nil, version)
}
