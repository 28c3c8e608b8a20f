package conformance

import (
	"context"
	"errors"
	"testing"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
)

func barrierLeaveAgain(t *T) {
	a, b := t.open(), t.open()
	e1, e2 := a.enter("a", 2), b.enter("b", 2)
	r1, r2 := e1.get(), e2.get()
	l2 := t.leave("b", r2)
	b.inLine(t.place(backend.Barrier), 1)
	l2.waits()
	t.leave("a", r1).get()
	l2.get()
	for range 2 {
		t.leave("a, again,", r1).get()
		t.leave("b, again,", r2).get()
	}
	a.empty(t.place(backend.Barrier))
	t.leave("a, once more,", r1).get()
	t.over("a", r1, coord.ErrReleased)
}

func barrierLeaveContext(t *T) {
	a, b := t.open(), t.open()
	e1, e2 := a.enter("a", 2), b.enter("b", 2)
	r1, r2 := e1.get(), e2.get()
	l1 := t.leave("a", r1)
	b.inLine(t.place(backend.Barrier), 1)
	l1.waits()
	l1.cancel()
	l1.fails(context.Canceled)
	t.over("a, whose Leave was cancelled,", r1, coord.ErrReleased)
	again := t.leave("a, again,", r1)
	again.waits()
	t.held("b", r2)
	t.leave("b", r2).get()
	again.get()
	b.empty(t.place(backend.Barrier))
}

func barrierDeadContext(t *T) {
	a, b := t.open(), t.open()
	dead, cancel := context.WithCancel(t.ctx)
	cancel()
	e := a.enterQueued(1, "the one who waits", 2)
	if r, err := b.Barrier(t.name, 2).Enter(dead); r != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("Enter with a dead ctx: %v, %v; want context.Canceled", r, err)
	}
	t.isError("Wait with a dead ctx", b.Barrier(t.name, 2).Wait(dead), context.Canceled)
	e.waits()
	a.inLine(t.place(backend.Barrier), 1)
}

func barrierMismatch(t *T) {
	a, b := t.open(), t.open()
	e := a.enterQueued(1, "one of three", 3)
	b.enter("one of two", 2).fails(coord.ErrMismatch)
	e.waits()
	a.inLine(t.place(backend.Barrier), 1)
	e2, e3 := b.enter("the second of three", 3), b.enter("the third", 3)
	t.together(e.get(), e2.get(), e3.get())
	t.leaveAll(e.value, e2.value, e3.value)
	f1, f2 := a.enter("one of two, when nobody is there,", 2), b.enter("the other", 2)
	t.together(f1.get(), f2.get())
	t.leaveAll(f1.value, f2.value)
	a.empty(t.place(backend.Barrier))
}

func barrierInvalid(t *T) {
	c := t.open()
	for _, n := range []int{0, -1} {
		c.enter("a party of none", n).fails(coord.ErrInvalid)
		t.isError("Wait of a party of none", c.Barrier(t.name, n).Wait(t.ctx), coord.ErrInvalid)
	}
	c.inLine(t.place(backend.Barrier), 0)
}

func barrierCloseLeaves(t *T) {
	a, b, c := t.open(), t.open(), t.open()
	p := t.place(backend.Barrier)
	e := a.enterQueued(1, "the one whose client closes", 2)
	a.shut()
	e.fails(coord.ErrClosed)
	b.free(p)
	e1, e2 := b.enter("b", 2), c.enter("c", 2)
	r1, r2 := e1.get(), e2.get()
	t.together(r1, r2)
	l2 := t.leave("c", r2)
	c.inLine(p, 1)
	l2.waits()
	b.shut()
	t.over("the round of a closed client", r1, coord.ErrReleased)
	l2.get()
	c.free(p)
	t.leave("a closed client", r1).fails(coord.ErrClosed)
}

func barrierNothingLeft(t *T) {
	cs := t.opens(3)
	p := t.place(backend.Barrier)
	for range 5 {
		var rounds []*coord.Round
		var entering []*attempt[*coord.Round]
		for _, c := range cs {
			entering = append(entering, c.enter("a party", 3))
		}
		for _, e := range entering {
			rounds = append(rounds, e.get())
		}
		extra := cs[0].enter("one too many", 3)
		cs[0].inLine(p, 4)
		extra.cancel()
		extra.fails(context.Canceled)
		t.leaveAll(rounds...)
		cs[0].empty(p)
	}
}

func barrierLarge(t *T) {
	n := 1000
	switch {
	case t.h.small:
		n = 50
	case testing.Short(), slow:
		n = 300
	}
	cs := t.opens(5)
	var entering []*attempt[*coord.Round]
	for i := range n {
		entering = append(entering, cs[i%5].enter("one of many", n))
	}
	rounds := make([]*coord.Round, n)
	for i, e := range entering {
		if !within(t.patience()/4, e.done) {
			t.Fatalf("one of %d still waits after %v", n, t.patience()/4)
		}
		rounds[i] = e.get()
	}
	t.together(rounds[0:n]...)
	var leaving []*attempt[struct{}]
	for _, r := range rounds {
		leaving = append(leaving, t.leave("one of many", r))
	}
	for _, l := range leaving {
		if !within(t.patience()/4, l.done) || l.err != nil {
			t.Fatalf("one of %d did not leave within %v: %v", n, t.patience()/4, l.outcome())
		}
	}
	cs[0].empty(t.place(backend.Barrier))
}
