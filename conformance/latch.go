package conformance

import (
	"context"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
)

func latchChecks() []check {
	rows := []check{
		{name: "Latch/Opens", fn: latchOpens, tough: true,
			why: "a latch is closed until it has been counted down, and then lets everybody through, late comers too"},
		{name: "Latch/Countdown", fn: latchCountdown, tough: true,
			why: "a latch of n opens at the n-th CountDown, not before, whoever counts"},
		{name: "Latch/CountsExactly", fn: latchCountsExactly, tough: true,
			why: "each CountDown counts once, however many count at once and whatever is lost on the way"},
		{name: "Latch/OpenStaysOpen", fn: latchStaysOpen, tough: true,
			why: "CountDown at an open latch does nothing, and it stays open"},
		{name: "Latch/Reset", fn: latchReset, tough: true,
			why: "Reset closes a latch again; those who waited go on waiting, unless it had opened before"},
		{name: "Latch/Context", fn: latchContext, tough: true,
			why: "Wait ends with its ctx, and changes nothing"},
		{name: "Latch/Mismatch", fn: latchMismatch, tough: true,
			why: "all clients give the same count; one that meets a latch with another is ErrMismatch, until it is Reset"},
		{name: "Latch/Invalid", fn: latchInvalid, tough: true,
			why: "a count below 1 is ErrInvalid at first use"},
		{name: "Latch/Close", fn: latchClose, tough: true,
			why: "closing a client ends its waits as ErrClosed, and what it counted stays"},
		{name: "Latch/Remove", fn: latchRemove, tough: true,
			why: "Remove makes the service forget the latch, and nothing is left"},
		{name: "Latch/Durable", fn: latchDurable, need: []need{durable},
			why: "Info.Durable: a latch outlives the clients that counted it down"},
	}
	for i := range rows {
		rows[i].need = append([]need{kind(backend.Latch)}, rows[i].need...)
	}
	return rows
}

// countDown counts down once. Asked again from here it might count twice.
func (c *client) countDown(count int) {
	beginError(c.t, "CountDown", c.Latch(c.t.name, count).CountDown).get()
}

func (c *client) wait(who string, count int) *attempt[struct{}] {
	l := c.Latch(c.t.name, count)
	return beginError(c.t, who, func(ctx context.Context) error {
		return c.t.retry(func() error { return l.Wait(ctx) })
	})
}

func latchOpens(t *T) {
	a, b := t.open(), t.open()
	w1, w2 := a.wait("a waiter", 1), b.wait("another waiter", 1)
	w1.waits()
	w2.waits()
	a.countDown(1)
	w1.get()
	w2.get()
	b.wait("a late comer", 1).get()
	t.open().wait("a late comer of a new client", 1).get()
}

func latchCountdown(t *T) {
	cs := t.opens(3)
	const n = 5
	w := cs[0].wait("a waiter", n)
	for i := range n {
		w.waits()
		cs[i%3].countDown(n)
	}
	w.get()
}

func latchCountsExactly(t *T) {
	cs := t.opens(4)
	const n = 24
	w := cs[0].wait("a waiter", n)
	var all []*attempt[struct{}]
	for i := range n - 1 {
		l := cs[i%4].Latch(t.name, n)
		all = append(all, beginError(t, "CountDown", l.CountDown))
	}
	for _, a := range all {
		a.get()
	}
	w.waits()
	cs[1].countDown(n)
	w.get()
}

func latchStaysOpen(t *T) {
	a, b := t.open(), t.open()
	for range 3 {
		a.countDown(2)
		b.countDown(2)
		b.wait("a waiter at the open latch", 2).get()
	}
}

func latchReset(t *T) {
	a, b := t.open(), t.open()
	reset := func(count int) {
		l := a.Latch(t.name, 1)
		beginError(t, "Reset", func(ctx context.Context) error {
			return t.retry(func() error { return l.Reset(ctx, count) })
		}).get()
	}
	a.countDown(1)
	b.wait("a waiter at the open latch", 1).get()
	reset(2)
	w := b.wait("a waiter after Reset", 1)
	w.waits()
	a.countDown(1)
	w.waits()
	reset(2)
	w.waits()
	a.countDown(1)
	w.waits()
	a.countDown(1)
	w.get()
	reset(1)
	w = b.wait("a waiter after the second Reset", 1)
	w.waits()
	// It opens and closes behind the waiter's back.
	a.countDown(1)
	reset(1)
	w.get()
}

func latchContext(t *T) {
	a, b := t.open(), t.open()
	w := a.wait("a waiter", 1)
	w.waits()
	w.cancel()
	w.fails(context.Canceled)
	dead, cancel := context.WithCancel(t.ctx)
	cancel()
	l := b.Latch(t.name, 1)
	t.isError("Wait with a dead ctx", l.Wait(dead), context.Canceled)
	t.isError("CountDown with a dead ctx", l.CountDown(dead), context.Canceled)
	t.isError("Reset with a dead ctx", l.Reset(dead, 1), context.Canceled)
	w = b.wait("a waiter", 1)
	w.waits()
	a.countDown(1)
	w.get()
}

func latchMismatch(t *T) {
	a, b := t.open(), t.open()
	a.countDown(3)
	b.wait("one with another count", 2).fails(coord.ErrMismatch)
	beginError(t, "CountDown with another count", func(ctx context.Context) error {
		return t.retry(func() error { return b.Latch(t.name, 2).CountDown(ctx) })
	}).fails(coord.ErrMismatch)
	a.countDown(3)
	w := b.wait("one with the same count", 3)
	w.waits()
	a.countDown(3)
	w.get()
}

func latchInvalid(t *T) {
	c := t.open()
	for _, n := range []int{0, -1} {
		l := c.Latch(t.name, n)
		t.isError("Wait", l.Wait(t.ctx), coord.ErrInvalid)
		t.isError("CountDown", l.CountDown(t.ctx), coord.ErrInvalid)
		t.isError("Reset", c.Latch(t.name, 1).Reset(t.ctx, n), coord.ErrInvalid)
	}
	if v := c.register(t.place(backend.Latch)); v.Data != nil {
		t.Errorf("the register holds %q; want nothing", v.Data)
	}
}

func latchClose(t *T) {
	a, b := t.open(), t.open()
	a.countDown(2)
	w := a.wait("a waiter", 2)
	w.waits()
	a.shut()
	w.fails(coord.ErrClosed)
	w = b.wait("another client's waiter", 2)
	w.waits()
	b.countDown(2)
	w.get()
}

func latchRemove(t *T) {
	a, b := t.open(), t.open()
	a.countDown(1)
	beginError(t, "Remove", func(ctx context.Context) error {
		return t.retry(func() error { return b.Latch(t.name, 1).Remove(ctx) })
	}).get()
	if v := a.register(t.place(backend.Latch)); v.Data != nil {
		t.Errorf("the register holds %q after Remove; want nothing", v.Data)
	}
	if line := a.now(t.place(backend.Latch)); len(line) != 0 {
		t.Errorf("the line of a latch is %s; want it empty", show(line))
	}
	w := b.wait("a waiter at the forgotten latch", 2)
	w.waits()
	a.countDown(2)
	a.countDown(2)
	w.get()
}

func latchDurable(t *T) {
	for range 3 {
		c := t.open()
		c.countDown(3)
		c.shut()
	}
	t.open().wait("one who comes when all have gone", 3).get()
}
