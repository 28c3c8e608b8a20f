package conformance

import (
	"context"
	"errors"
	"strconv"

	"github.com/gocoord/coord/backend"
)

func withdrawChecks() []check {
	barrier := []need{kind(backend.Barrier)}
	return []check{
		{name: "Withdraw/Current", need: barrier, fn: withdrawCurrent,
			why: "Withdraw releases the lease provided that the register is still at version v, an absent one too"},
		{name: "Withdraw/Changed", need: barrier, fn: withdrawChanged,
			why: "Withdraw changes nothing and answers ErrConflict when the register has changed"},
		{name: "Withdraw/OrCounted", need: barrier, fn: withdrawOrCounted,
			why: "with Store's alive, Withdraw makes \"was counted\" and \"withdrew\" exclude each other"},
		{name: "Withdraw/Twice", need: barrier, fn: withdrawTwice,
			why: "a repeated Withdraw finds its own earlier effect, and a Release after it is nil"},
		{name: "Withdraw/DeadContext", need: barrier, fn: withdrawDeadContext,
			why: "Withdraw with a ctx that has ended fails and either did or did not release; it never does half of it"},
		{name: "Withdraw/Waiter", need: []need{kind(backend.Mutex)}, fn: withdrawHandsOver,
			why: "Withdraw takes the entry out of line as Release does: the next is admitted"},
	}
}

func downgradeChecks() []check {
	rw := []need{kind(backend.RWMutex)}
	return []check{
		{name: "Downgrade/InPlace", need: rw, fn: downgradeInPlace,
			why: "Downgrade turns an Exclusive claim into a Shared one in place: readers right behind it are admitted, and the entry keeps its position"},
		{name: "Downgrade/NoWriterBetween", need: rw, fn: downgradeNoWriterBetween,
			why: "nobody writes between the exclusive and the shared part of a downgraded lease"},
		{name: "Downgrade/Again", need: rw, fn: downgradeAgain,
			why: "Downgrade does nothing for a lease that is Shared already"},
		{name: "Downgrade/OtherModes", need: []need{kind(backend.Semaphore), kind(backend.Group)}, fn: downgradeOtherModes,
			why: "Downgrade is ErrInvalid for a Permit or a Presence, which stay as they were"},
		{name: "Downgrade/Ended", need: rw, fn: downgradeEnded,
			why: "a lease that has ended cannot be downgraded, and puts nothing in line"},
	}
}

func withdrawCurrent(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Barrier)
	for round, data := range [][]byte{nil, []byte("x")} {
		if data != nil {
			a.store(p, data, a.register(p).Version)
		}
		l := a.take("a member", p, presentClaim)
		v := a.register(p)
		t.ok("Withdraw at the current version", l.Withdraw(t.ctx, v.Version))
		t.over("the lease that was withdrawn", l, backend.ErrReleased)
		b.free(p)
		if after := a.register(p); after.Version != v.Version {
			t.Errorf("round %d: Withdraw changed the register from %q to %q", round, v.Version, after.Version)
		}
	}
}

func withdrawChanged(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Barrier)
	l := a.take("a member", p, presentClaim)
	absent := a.register(p).Version
	first := b.store(p, []byte("x"), absent)
	second := b.store(p, []byte("x"), first)
	for _, old := range []backend.Version{absent, first} {
		if err := l.Withdraw(t.ctx, old); !errors.Is(err, backend.ErrConflict) {
			t.Errorf("Withdraw at an old version: %v; want ErrConflict", err)
		}
		t.held("the lease whose Withdraw was refused", l)
		b.inLine(p, 1)
	}
	t.ok("Withdraw at the current version", l.Withdraw(t.ctx, second))
	b.free(p)
}

func withdrawOrCounted(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Barrier)
	counted, withdrawn := 0, 0
	for i := range 60 {
		l := a.take("a member", p, presentClaim)
		v := b.register(p)
		withdraw := beginError(t, "Withdraw", func(ctx context.Context) error { return l.Withdraw(ctx, v.Version) })
		store := begin(t, "Store", func(ctx context.Context) (backend.Version, error) {
			return b.b.Store(ctx, p, []byte(strconv.Itoa(i)), v.Version, l.ID())
		})
		if !within(t.h.Slack, withdraw.done) || !within(t.h.Slack, store.done) {
			t.Fatalf("Withdraw or Store still waits after %v", t.h.Slack)
		}
		switch {
		case withdraw.err == nil && errors.Is(store.err, backend.ErrConflict):
			withdrawn++
		case store.err == nil && errors.Is(withdraw.err, backend.ErrConflict):
			counted++
			t.held("the lease that was counted", l)
			t.give("the lease that was counted", l)
		default:
			t.Fatalf("round %d: Withdraw: %v, Store: %v; want one to succeed and the other to answer ErrConflict",
				i, withdraw.err, store.err)
		}
		a.free(p)
	}
	t.Logf("%d times counted, %d times withdrawn", counted, withdrawn)
}

func withdrawTwice(t *T) {
	a := t.open()
	p := t.place(backend.Barrier)
	l := a.take("a member", p, presentClaim)
	v := a.register(p).Version
	t.ok("Withdraw", l.Withdraw(t.ctx, v))
	other := a.take("another member", p, presentClaim)
	if err := l.Withdraw(t.ctx, v); err != nil {
		t.Errorf("the second Withdraw: %v; want nil, as for Release", err)
	}
	if err := l.Release(t.ctx); err != nil {
		t.Errorf("Release after Withdraw: %v; want nil", err)
	}
	t.held("another member", other)
	a.inLine(p, 1)
}

func withdrawDeadContext(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Barrier)
	l := a.take("a member", p, presentClaim)
	v := a.register(p).Version
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	if err := l.Withdraw(ctx, v); !errors.Is(err, context.Canceled) && !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("Withdraw with a dead ctx: %v; want its error", err)
	}
	t.ok("a repeated Withdraw", l.Withdraw(t.ctx, v))
	t.over("the lease", l, backend.ErrReleased)
	b.free(p)
}

func withdrawHandsOver(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Mutex)
	holder := a.take("the holder", p, exclusiveClaim)
	w := b.queue(2, "the waiter", p, exclusiveClaim)
	old := a.register(p).Version
	now := a.store(p, []byte("x"), old)
	if err := holder.Withdraw(t.ctx, old); !errors.Is(err, backend.ErrConflict) {
		t.Errorf("Withdraw at an old version: %v; want ErrConflict", err)
	}
	w.waits()
	t.ok("Withdraw", holder.Withdraw(t.ctx, now))
	t.held("the waiter", w.get())
	b.store(p, nil, now)
}

func downgradeInPlace(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.RWMutex)
	holder := a.take("the writer", p, exclusiveClaim)
	r1 := b.queue(2, "a reader", p, sharedClaim)
	w := b.queue(3, "the next writer", p, exclusiveClaim)
	r2 := a.queue(4, "a reader behind the next writer", p, sharedClaim)
	t.ok("Downgrade", holder.Downgrade(t.ctx))
	first := r1.get()
	t.held("the downgraded lease", holder)
	line := b.line(p, "the downgraded lease as the first entry, shared", func(l []backend.Entry) bool {
		return len(l) == 4 && l[0].Claim.Mode == backend.Shared && l[1].Admitted
	}).Entries
	if line[0].ID != holder.ID() || !line[0].Admitted {
		t.Errorf("the line is %s; want %s first", show(line), holder.ID())
	}
	r2.waits()
	t.give("the reader", first)
	w.waits()
	t.give("the downgraded lease", holder)
	t.over("the downgraded lease", holder, backend.ErrReleased)
	t.give("the next writer", w.get())
	r2.get()
}

func downgradeNoWriterBetween(t *T) {
	cs := t.opens(3)
	p := t.place(backend.RWMutex)
	for range 10 {
		holder := cs[0].take("the writer", p, exclusiveClaim)
		w := cs[1].queue(2, "the next writer", p, exclusiveClaim)
		t.ok("Downgrade", holder.Downgrade(t.ctx))
		w.waits()
		t.held("the downgraded lease", holder)
		cs[2].acquire("a writer that tries", p, noWait(exclusiveClaim)).fails(backend.ErrBusy)
		cs[2].inLine(p, 2)
		t.give("the downgraded lease", holder)
		t.give("the next writer", w.get())
	}
	holder := cs[0].take("the writer", p, exclusiveClaim)
	t.ok("Downgrade", holder.Downgrade(t.ctx))
	cs[1].take("a reader that comes later", p, sharedClaim)
}

func downgradeAgain(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.RWMutex)
	holder := a.take("the writer", p, exclusiveClaim)
	t.ok("Downgrade", holder.Downgrade(t.ctx))
	t.ok("the second Downgrade", holder.Downgrade(t.ctx))
	reader := b.take("a reader", p, sharedClaim)
	t.ok("Downgrade of a reader", reader.Downgrade(t.ctx))
	w := a.queue(3, "a writer", p, exclusiveClaim)
	t.give("the downgraded lease", holder)
	w.waits()
	t.give("the reader", reader)
	w.get()
}

func downgradeOtherModes(t *T) {
	c := t.open()
	sem, group := t.place(backend.Semaphore), t.place(backend.Group)
	permit := c.take("a permit", sem, permits(1, 1))
	member := c.take("a member", group, presentClaim)
	for _, l := range []backend.Lease{permit, member} {
		if err := l.Downgrade(t.ctx); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("Downgrade: %v; want ErrInvalid", err)
		}
		t.held("the lease that cannot be downgraded", l)
	}
	c.acquire("another permit", sem, noWait(permits(1, 1))).fails(backend.ErrBusy)
	c.inLine(group, 1)
}

func downgradeEnded(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.RWMutex)
	l := a.take("the writer", p, exclusiveClaim)
	t.give("the writer", l)
	if err := l.Downgrade(t.ctx); err == nil {
		t.Errorf("Downgrade of a released lease succeeded; want an error")
	}
	b.free(p)
	b.take("the next writer", p, exclusiveClaim)
}
