package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/gocoord/coord/backend"
)

var (
	exclusiveClaim = backend.Claim{Mode: backend.Exclusive}
	sharedClaim    = backend.Claim{Mode: backend.Shared}
	presentClaim   = backend.Claim{Mode: backend.Presence}
)

func permits(weight, limit int64) backend.Claim {
	return backend.Claim{Mode: backend.Permit, Weight: weight, Limit: limit}
}

func noWait(c backend.Claim) backend.Claim {
	c.NoWait = true
	return c
}

func acquireChecks() []check {
	lock, rw, sem := []need{kind(backend.Mutex)}, []need{kind(backend.RWMutex)}, []need{kind(backend.Semaphore)}
	return []check{
		{name: "Acquire/Modes", need: rw, fn: acquireModes,
			why: "the rule: Exclusive waits for everyone ahead, Shared for every Exclusive ahead, Presence for nobody"},
		{name: "Acquire/Permits", need: sem, fn: acquirePermits,
			why: "the rule: a Permit waits until the weights ahead leave room under its limit"},
		{name: "Acquire/Order", need: append(rw, fifo), fn: acquireOrder,
			why: "those who wait count as ahead, too: admission is in order of arrival"},
		{name: "Acquire/StrangersOfOneClient", need: lock, fn: acquireStrangersOfOneClient,
			why: "two Acquires of one Backend are strangers: the second waits for the first"},
		{name: "Acquire/StrangersOfOneProcess", need: lock, fn: acquireStrangersOfOneProcess,
			why: "two Backends are strangers, even in one process"},
		{name: "Acquire/Entry", need: append(sem, kind(backend.Group)), fn: acquireEntry,
			why: "an entry shows the claim as it was made, with the ID and token of its lease"},
		{name: "Acquire/Tokens", need: lock, fn: acquireTokens,
			why: "a token is positive and greater than that of every conflicting lease admitted before; IDs are never used again"},
		{name: "Acquire/CancelLeavesNothing", need: lock, fn: acquireCancelLeavesNothing,
			why: "after an error Acquire leaves no entry while the session lives, and none is ever admitted that has no owner"},
		{name: "Acquire/CancelWins", need: lock, fn: acquireCancelWins,
			why: "when ctx ends and the claim is admitted at the same moment the cancel wins and the grant is given back"},
		{name: "Acquire/CancelRace", need: lock, fn: acquireCancelRace,
			why: "an Acquire that fails as it is admitted leaves no entry, and the next in line is admitted"},
		{name: "Acquire/DeadContext", need: lock, fn: acquireDeadContext,
			why: "a ctx that has already ended fails, with its error, and nothing is left behind"},
		{name: "Acquire/Deadline", need: lock, fn: acquireDeadline,
			why: "a wait ends with its ctx's deadline, as context.DeadlineExceeded"},
		{name: "Acquire/ContextBoundsWaitOnly", need: lock, fn: acquireContextBoundsWaitOnly,
			why: "the ctx bounds the wait only: ending it later does not end the lease"},
		{name: "Acquire/Invalid", need: lock, fn: acquireInvalid,
			why: "what Claim.Check or Place.Check refuse is ErrInvalid, and leaves nothing"},
		{name: "Acquire/LargestClaim", need: []need{kind(backend.Group)}, fn: acquireLargestClaim,
			why: "a claim may carry MaxData bytes of data and MaxOwner bytes of owner, of any value"},
		{name: "Acquire/Mismatch", need: sem, fn: acquireMismatch,
			why: "a Permit under another limit than somebody ahead is ErrMismatch, and the later one is told"},
		{name: "Acquire/Lifecycle", need: lock, fn: acquireLifecycle,
			why: "Done is closed when the lease ends; Err is nil while held, then ErrReleased; a second Release is nil"},
		{name: "Acquire/ReleaseOnlyItself", need: lock, fn: acquireReleaseOnlyItself,
			why: "Release takes its own entry out of line, and no other of the same name"},
		{name: "Acquire/ReleaseDeadContext", need: lock, fn: acquireReleaseDeadContext,
			why: "whatever Release answers, the lease has ended for its owner and the entry is removed"},
		{name: "Acquire/KindsDoNotMeet", fn: acquireKindsDoNotMeet,
			why: "names of different kinds do not meet, except that Mutex and RWMutex are one lock"},
		{name: "Acquire/Concurrent", need: lock, fn: acquireConcurrent,
			why: "methods are safe for concurrent use, and one holder at a time means one"},
		{name: "Acquire/LeaseDeadline", need: lock, fn: acquireLeaseDeadline,
			why: "Deadline is until when the lease is certain; it moves as the session is renewed"},
	}
}

func acquireModes(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.RWMutex)
	r1 := a.take("the first reader", p, sharedClaim)
	r2 := b.take("the second reader", p, sharedClaim)
	w := b.queue(3, "the writer", p, exclusiveClaim)
	t.give("the first reader", r1)
	w.waits()
	t.give("the second reader", r2)
	writer := w.get()
	r := a.queue(2, "a reader behind the writer", p, sharedClaim)
	t.give("the writer", writer)
	r.get()

	if !t.h.Expect.Supports(backend.Group) {
		return
	}
	g := t.place(backend.Group)
	a.take("an exclusive claim", g, exclusiveClaim)
	b.take("a presence behind it", g, presentClaim)
}

func acquirePermits(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Semaphore)
	two := a.take("two of four", p, permits(2, 4))
	one := b.take("one of four", p, permits(1, 4))
	big := b.queue(3, "two more", p, permits(2, 4))
	small := a.queue(4, "one behind them", p, permits(1, 4))
	t.give("one of four", one)
	big.get()
	small.waits()
	t.give("two of four", two)
	small.get()
}

func acquireOrder(t *T) {
	cs := t.opens(3)
	p := t.place(backend.RWMutex)
	holder := cs[0].take("the holder", p, exclusiveClaim)
	modes := []backend.Claim{sharedClaim, sharedClaim, exclusiveClaim, sharedClaim, exclusiveClaim, exclusiveClaim, sharedClaim, sharedClaim}
	var line []*attempt[backend.Lease]
	for i, c := range modes {
		line = append(line, cs[i%3].queue(i+2, fmt.Sprintf("number %d, %s,", i, c.Mode), p, c))
	}
	t.give("the holder", holder)
	for i := 0; i < len(line); {
		group := []*attempt[backend.Lease]{line[i]}
		for j := i + 1; j < len(line) && modes[i].Mode == backend.Shared && modes[j].Mode == backend.Shared; j++ {
			group = append(group, line[j])
		}
		i += len(group)
		var leases []backend.Lease
		for _, a := range group {
			leases = append(leases, a.get())
		}
		if i < len(line) {
			line[i].waits()
		}
		for _, l := range leases {
			t.give("one in line", l)
		}
	}
}

func acquireStrangersOfOneClient(t *T) {
	c := t.open()
	p := t.place(backend.Mutex)
	first := c.take("the first claim", p, exclusiveClaim)
	second := c.queue(2, "the second claim of the same client", p, exclusiveClaim)
	t.give("the first claim", first)
	second.get()
}

func acquireStrangersOfOneProcess(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Mutex)
	first := a.take("the first client", p, exclusiveClaim)
	second := b.queue(2, "the second client", p, exclusiveClaim)
	t.give("the first client", first)
	second.get()
}

func acquireEntry(t *T) {
	a, b := t.open(), t.open()
	sem, group := t.place(backend.Semaphore), t.place(backend.Group)
	for _, want := range []struct {
		p backend.Place
		c backend.Claim
	}{
		{sem, backend.Claim{Mode: backend.Permit, Weight: 2, Limit: 1 << 40, Owner: "somebody", Data: []byte("a\x00b\xff")}},
		{group, backend.Claim{Mode: backend.Presence, Limit: 7, Owner: "Zoë at host/1"}},
		{t.place(backend.Mutex), backend.Claim{Mode: backend.Exclusive, Owner: "x"}},
	} {
		if !t.h.Expect.Supports(want.p.Kind) {
			continue
		}
		lease := a.take("the claim", want.p, want.c)
		e := b.inLine(want.p, 1)[0]
		if e.ID != lease.ID() || e.Token != lease.Token() || !e.Admitted {
			t.Errorf("the entry is %s; want ID %s, token %d, admitted", show([]backend.Entry{e}), lease.ID(), lease.Token())
		}
		got := e.Claim
		if got.Mode != want.c.Mode || got.Weight != want.c.Weight || got.Limit != want.c.Limit || got.Owner != want.c.Owner || !bytes.Equal(got.Data, want.c.Data) {
			t.Errorf("the entry's claim is %+v; want %+v", got, want.c)
		}
		second := b.acquire("a second claim", want.p, want.c)
		line := a.inLine(want.p, 2)
		if line[0].ID != lease.ID() || line[1].ID == lease.ID() || line[1].Token <= line[0].Token {
			t.Errorf("the line is %s; want the order of arrival, and tokens that grow with it", show(line))
		}
		second.cancel()
	}
}

func acquireInvalid(t *T) {
	c := t.open()
	for _, bad := range []backend.Claim{
		{}, {Mode: 99}, permits(0, 1), permits(-1, 1), permits(2, 1), permits(1, 0),
		{Mode: backend.Exclusive, Data: make([]byte, backend.MaxData+1)},
		{Mode: backend.Exclusive, Owner: strings.Repeat("x", backend.MaxOwner+1)},
	} {
		l, err := c.b.Acquire(t.ctx, t.place(backend.Mutex), bad)
		if l != nil || !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("Acquire of mode %d, %d of %d permits, %d bytes, owner of %d: %v, %v; want ErrInvalid",
				bad.Mode, bad.Weight, bad.Limit, len(bad.Data), len(bad.Owner), l, err)
		}
	}
	if line := c.now(t.place(backend.Mutex)); len(line) != 0 {
		t.Errorf("the line is %s; want it empty", show(line))
	}
	for _, bad := range []backend.Place{{}, {Kind: 99, Name: "x"}, {Kind: backend.Mutex}, {Kind: backend.Mutex, Name: "a//b"}} {
		if l, err := c.b.Acquire(t.ctx, bad, exclusiveClaim); l != nil || !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("Acquire at %v: %v, %v; want ErrInvalid", bad, l, err)
		}
		if _, err := c.b.Observe(t.ctx, bad, ""); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("Observe at %v: %v; want ErrInvalid", bad, err)
		}
		if err := c.b.Gone(t.ctx, bad, "x"); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("Gone at %v: %v; want ErrInvalid", bad, err)
		}
		if _, err := c.b.Load(t.ctx, bad, ""); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("Load at %v: %v; want ErrInvalid", bad, err)
		}
		if _, err := c.b.Store(t.ctx, bad, []byte("x"), ""); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("Store at %v: %v; want ErrInvalid", bad, err)
		}
	}
}

func acquireLargestClaim(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Group)
	claim := backend.Claim{Mode: backend.Presence, Owner: strings.Repeat("é", backend.MaxOwner/2), Data: make([]byte, backend.MaxData)}
	for i := range claim.Data {
		claim.Data[i] = byte(i * 31)
	}
	sent := bytes.Clone(claim.Data)
	a.take("the largest claim", p, claim)
	clear(claim.Data) // the caller may use its slice again
	e := b.inLine(p, 1)[0]
	if e.Claim.Owner != claim.Owner || !bytes.Equal(e.Claim.Data, sent) {
		t.Errorf("the entry has an owner of %d bytes and %d bytes of data; want %d and %d, as they were sent",
			len(e.Claim.Owner), len(e.Claim.Data), len(claim.Owner), len(sent))
	}
}

func acquireMismatch(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Semaphore)
	holder := a.take("one of three", p, permits(1, 3))
	b.acquire("one of four", p, permits(1, 4)).fails(backend.ErrMismatch)
	b.acquire("one of four, without waiting,", p, noWait(permits(1, 4))).fails(backend.ErrMismatch)
	t.held("one of three", holder)
	b.take("another one of three", p, permits(1, 3))
	a.inLine(p, 2)
}
