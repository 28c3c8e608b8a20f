package conformance

import (
	"context"
	"fmt"
	"slices"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
)

func barrierChecks() []check {
	rows := []check{
		{name: "Barrier/AllTogether", fn: barrierAllTogether,
			why: "Enter returns once all parties have entered, and not before; all of them see the same round"},
		{name: "Barrier/SlowMember", fn: barrierSlowMember,
			why: "Leave waits until every member of the round has left, however early the others are"},
		{name: "Barrier/Wait", fn: barrierWait,
			why: "Wait is Enter for those who need not know when the others are done; the two can be mixed"},
		{name: "Barrier/One", fn: barrierOne,
			why: "a barrier of one party lets everybody through, each in a round of its own"},
		{name: "Barrier/SpuriousWake", fn: barrierSpuriousWake,
			why: "a party that waits alone does not pass because others came and gave up"},
		{name: "Barrier/TimeoutThenLate", fn: barrierTimeoutThenLate,
			why: "a party that gave up is not counted with those who come later"},
		{name: "Barrier/SecondRound", fn: barrierSecondRound,
			why: "a party that enters again waits for the next round, and delays nobody who leaves this one"},
		{name: "Barrier/OthersRounds", fn: barrierOthersRounds,
			why: "a client that used a barrier before takes nothing for granted of what others did with it since"},
		{name: "Barrier/TooMany", fn: barrierTooMany,
			why: "of more parties than a round takes exactly that many pass; the others wait for the next round"},
		{name: "Barrier/LeaveAgain", fn: barrierLeaveAgain,
			why: "a second Leave waits as the first does, and is nil when all have left"},
		{name: "Barrier/LeaveContext", fn: barrierLeaveContext,
			why: "when ctx ends during Leave this party has left all the same, and a further Leave waits on"},
		{name: "Barrier/DeadContext", fn: barrierDeadContext,
			why: "Enter with a ctx that has ended fails and is counted by nobody"},
		{name: "Barrier/Mismatch", fn: barrierMismatch,
			why: "all clients give the same number of parties; one that meets others with another is ErrMismatch"},
		{name: "Barrier/Invalid", fn: barrierInvalid,
			why: "a barrier of less than one party is ErrInvalid at first use"},
		{name: "Barrier/CloseLeaves", fn: barrierCloseLeaves,
			why: "closing a client ends its waits, as ErrClosed, and takes it out of the rounds it is in"},
		{name: "Barrier/NothingLeft", fn: barrierNothingLeft,
			why: "when all have left, line and register of a barrier are empty"},
		{name: "Barrier/Large", fn: barrierLarge,
			why: "a service's limits on one request or one transaction do not show in a large barrier"},
	}
	for i := range rows {
		rows[i].tough = true
		rows[i].need = append([]need{kind(backend.Barrier)}, rows[i].need...)
	}
	return rows
}

// enter starts an Enter of the check's barrier.
func (c *client) enter(who string, parties int) *attempt[*coord.Round] {
	b := c.Barrier(c.t.name, parties)
	return begin(c.t, who, func(ctx context.Context) (round *coord.Round, err error) {
		err = c.t.retry(func() (err error) { round, err = b.Enter(ctx); return err })
		return round, err
	})
}

// enterQueued starts an Enter that has to wait, and returns when it is in line
// as number n.
func (c *client) enterQueued(n int, who string, parties int) *attempt[*coord.Round] {
	a := c.enter(who, parties)
	c.inLine(c.t.place(backend.Barrier), n)
	a.waits()
	return a
}

// leave starts a Leave.
func (t *T) leave(who string, r *coord.Round) *attempt[struct{}] {
	return beginError(t, "Leave of "+who, func(ctx context.Context) error {
		return t.retry(func() error { return r.Leave(ctx) })
	})
}

// together wants all of these to be in one round of exactly so many.
func (t *T) together(rounds ...*coord.Round) {
	first := rounds[0]
	want := first.Members()
	if n := len(want); n != len(rounds) {
		t.Fatalf("a round has %d members; want %d", n, len(rounds))
	}
	last := uint64(0)
	for _, m := range want {
		if m.ID == "" || m.Token <= last {
			t.Fatalf("the members are %v; want them in order of arrival, with IDs and tokens", want)
		}
		last = m.Token
	}
	for _, r := range rounds {
		if r.Number() != first.Number() || !sameMembers(r.Members(), want) {
			t.Fatalf("one is in round %d with %v, and another in round %d with %v; want the same for both",
				first.Number(), want, r.Number(), r.Members())
		}
		t.held("one who is inside", r)
	}
}

func sameMembers(a, b []coord.Member) bool {
	return slices.EqualFunc(a, b, func(m, n coord.Member) bool {
		return m.ID == n.ID && m.Token == n.Token && m.Owner == n.Owner
	})
}

// leaveAll lets all members leave.
func (t *T) leaveAll(rounds ...*coord.Round) {
	var all []*attempt[struct{}]
	for _, r := range rounds {
		all = append(all, t.leave("a member", r))
	}
	for i, a := range all {
		a.get()
		t.over("one who has left", rounds[i], coord.ErrReleased)
	}
}

// empty waits until line and register of the barrier are empty.
func (c *client) empty(p backend.Place) {
	c.free(p)
	if c.t.h.flaky {
		return // the last one tidies up only if the service answers
	}
	c.t.await("an empty register", func(stop <-chan struct{}) bool {
		var since backend.Version
		for {
			load := c.load("Load", p, since)
			select {
			case <-load.done:
			case <-stop:
				return false
			}
			if load.err != nil {
				c.t.Fatalf("Load: %v", load.err)
			}
			if load.value.Data == nil {
				return true
			}
			since = load.value.Version
		}
	})
}

func barrierAllTogether(t *T) {
	a, b := t.open(), t.open()
	e1 := a.enterQueued(1, "the first party", 3)
	e2 := b.enterQueued(2, "the second party", 3)
	e1.waits()
	e3 := a.enter("the third party", 3)
	r1, r2, r3 := e1.get(), e2.get(), e3.get()
	t.together(r1, r2, r3)
	t.leaveAll(r1, r2, r3)
	a.empty(t.place(backend.Barrier))
}

func barrierSlowMember(t *T) {
	cs := t.opens(3)
	var entering []*attempt[*coord.Round]
	for _, c := range cs {
		entering = append(entering, c.enter("a party", 3))
	}
	r1, r2, slow := entering[0].get(), entering[1].get(), entering[2].get()
	t.together(r1, r2, slow)
	l1 := t.leave("the first to leave", r1)
	cs[0].inLine(t.place(backend.Barrier), 2)
	l2 := t.leave("the second to leave", r2)
	cs[0].inLine(t.place(backend.Barrier), 1)
	l1.waits()
	l2.waits()
	t.held("the slow member", slow)
	t.leave("the slow member", slow).get()
	l1.get()
	l2.get()
	cs[0].empty(t.place(backend.Barrier))
}

func barrierWait(t *T) {
	if t.h.flaky {
		return // an ErrUnavailable of Wait does not tell whether it has passed
	}
	a, b := t.open(), t.open()
	wait := func(c *client) *attempt[struct{}] {
		return beginError(t, "Wait", c.Barrier(t.name, 2).Wait)
	}
	for range 5 {
		w1 := wait(a)
		a.inLine(t.place(backend.Barrier), 1)
		w1.waits()
		wait(b).get()
		w1.get()
		a.empty(t.place(backend.Barrier))
	}
	w := wait(a)
	e := b.enter("the one who stays", 2)
	w.get()
	r := e.get()
	t.leave("the one who stayed", r).get()
	a.empty(t.place(backend.Barrier))
}

func barrierOne(t *T) {
	a, b := t.open(), t.open()
	last := uint64(0)
	for range 3 {
		for _, c := range []*client{a, b} {
			r := c.enter("the only party", 1).get()
			t.together(r)
			if r.Number() <= last {
				t.Fatalf("round %d follows round %d; want a greater number", r.Number(), last)
			}
			last = r.Number()
			t.leave("the only party", r).get()
		}
	}
	r1, r2 := a.enter("one", 1).get(), b.enter("another", 1).get()
	t.leave("one", r1).get()
	t.held("another", r2)
	t.leave("another", r2).get()
	a.empty(t.place(backend.Barrier))
}

func barrierOthersRounds(t *T) {
	a, b, c := t.open(), t.open(), t.open()
	p := t.place(backend.Barrier)
	t.leave("the only party", a.enter("the only party", 1).get()).get()
	inside := b.enter("one that is inside meanwhile", 1).get()
	late := a.enterQueued(2, "a party of two", 2) // whom b must not meet
	late.waits()
	other := c.enter("the other of two", 2).get()
	round := late.get()
	t.together(round, other)
	t.leave("one that is inside meanwhile", inside).get()
	t.leaveAll(round, other)
	a.empty(p)
	first := b.enterQueued(1, "the first of the next round", 2)
	t.together(a.enter("the last of the next round", 2).get(), first.get())
}

func barrierSpuriousWake(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Barrier)
	lone := a.enterQueued(1, "the lone party", 3)
	for range 3 {
		other := b.enterQueued(2, "one who gives up", 3)
		other.cancel()
		other.fails(context.Canceled)
		a.inLine(p, 1)
		lone.waits()
	}
	e2, e3 := b.enter("the second party", 3), b.enter("the third party", 3)
	t.together(lone.get(), e2.get(), e3.get())
	t.leaveAll(lone.value, e2.value, e3.value)
	// After a round, too, the lone party of the next one waits.
	lone = a.enterQueued(1, "the lone party of the second round", 3)
	lone.cancel()
	lone.fails(context.Canceled)
	a.empty(p)
}

func barrierTimeoutThenLate(t *T) {
	a, b, c := t.open(), t.open(), t.open()
	gone := a.enterQueued(1, "the one who gives up", 2)
	gone.cancel()
	gone.fails(context.Canceled)
	e2 := b.enter("the second party", 2)
	b.inLine(t.place(backend.Barrier), 1)
	e2.waits()
	e3 := c.enter("the third party", 2)
	r2, r3 := e2.get(), e3.get()
	t.together(r2, r3)
	t.leaveAll(r2, r3)
	a.empty(t.place(backend.Barrier))
}

func barrierSecondRound(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Barrier)
	e1, e2 := a.enter("a", 2), b.enter("b", 2)
	r1, r2 := e1.get(), e2.get()
	t.together(r1, r2)
	l1 := t.leave("a", r1)
	a.inLine(p, 1)
	again := a.enterQueued(2, "a, who is back while b is inside,", 2)
	l1.waits()
	newcomer := b.enter("a newcomer", 2)
	s1, s2 := again.get(), newcomer.get()
	t.together(s1, s2)
	if s1.Number() <= r1.Number() {
		t.Fatalf("round %d follows round %d; want a greater number", s1.Number(), r1.Number())
	}
	l1.waits()
	t.leave("b", r2).get()
	l1.get()
	t.held("a in the second round", s1)
	t.leaveAll(s1, s2)
	a.empty(p)
}

// etcd-io/etcd#14603: one party more, and nobody ever passes.
func barrierTooMany(t *T) {
	const parties = 3
	cs := t.opens(4)
	for _, arrivals := range []int{4, 8} {
		entering := make(map[*attempt[*coord.Round]]bool)
		for i := range arrivals {
			entering[cs[i%4].enter("one of too many", parties)] = true
		}
		for rounds := range arrivals / parties {
			var inside []*coord.Round
			t.await(fmt.Sprintf("round %d of %d arrivals", rounds, arrivals), func(stop <-chan struct{}) bool {
				for len(inside) < (rounds+1)*parties {
					inside = inside[:0]
					for a := range entering {
						select {
						case <-a.done:
							inside = append(inside, a.get())
						default:
						}
					}
					select {
					case <-stop:
						return false
					default:
						t.settle()
					}
				}
				return true
			})
		}
		t.settle()
		byNumber := make(map[uint64][]*coord.Round)
		for a := range entering {
			select {
			case <-a.done:
				r := a.get()
				byNumber[r.Number()] = append(byNumber[r.Number()], r)
				delete(entering, a)
			default:
			}
		}
		if len(byNumber) != arrivals/parties || len(entering) != arrivals%parties {
			t.Fatalf("of %d arrivals %d are in %d rounds, and %d wait; want %d rounds of %d", arrivals,
				arrivals-len(entering), len(byNumber), len(entering), arrivals/parties, parties)
		}
		for _, inside := range byNumber {
			t.together(inside...)
			t.leaveAll(inside...)
		}
		for a := range entering {
			a.waits()
			a.cancel()
			a.fails(context.Canceled)
		}
		cs[0].empty(t.place(backend.Barrier))
	}
}
