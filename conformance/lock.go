package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
)

// An exclusive is a primitive that one holder has at a time. All of them keep
// the promises of a lock, so all take the same checks.
type exclusive struct {
	prefix string
	kind   backend.Kind
	of     func(c *coord.Client, name string) coord.Locker
}

func exclusives() []exclusive {
	return []exclusive{
		{"Lock", backend.Mutex, (*coord.Client).Locker},
		{"RWLock.Lock", backend.RWMutex, func(c *coord.Client, name string) coord.Locker { return c.RWLocker(name) }},
		{"Semaphore1", backend.Semaphore, func(c *coord.Client, name string) coord.Locker { return permitLocker{c.Semaphore(name, 1)} }},
		{"Election", backend.Election, func(c *coord.Client, name string) coord.Locker { return leaderLocker{c.Election(name)} }},
	}
}

type permitLocker struct{ s *coord.Semaphore }

func (l permitLocker) Lock(ctx context.Context) (*coord.Hold, error) { return l.s.Acquire(ctx, 1) }

func (l permitLocker) TryLock(ctx context.Context) (*coord.Hold, error) {
	return l.s.TryAcquire(ctx, 1)
}

type leaderLocker struct{ e *coord.Election }

func (l leaderLocker) Lock(ctx context.Context) (*coord.Hold, error) { return l.e.Campaign(ctx, nil) }

func (l leaderLocker) TryLock(ctx context.Context) (*coord.Hold, error) {
	return l.e.TryCampaign(ctx, nil)
}

// A bench is where the checks of a lock work: the primitive, and its place.
type bench struct {
	*T
	x exclusive
	p backend.Place
}

func (t bench) on(c *client) coord.Locker { return t.x.of(c.Client, t.p.Name) }

// lock starts a Lock.
func (t bench) lock(c *client, who string) *attempt[*coord.Hold] {
	return begin(t.T, who, t.on(c).Lock)
}

// try starts a TryLock.
func (t bench) try(c *client, who string) *attempt[*coord.Hold] {
	return begin(t.T, who, t.on(c).TryLock)
}

// take locks what is free.
func (t bench) take(c *client, who string) *coord.Hold { return t.lock(c, who).get() }

// queue starts a Lock that has to wait, and returns when it is in line.
func (t bench) queue(c *client, n int, who string) *attempt[*coord.Hold] {
	a := t.lock(c, who)
	c.inLine(t.p, n)
	a.waits()
	return a
}

// lockChecks are those of every exclusive primitive.
func lockChecks() []check {
	rows := []struct {
		name, why string
		need      []need
		fn        func(bench)
		tough     bool
	}{
		{name: "Excludes", fn: lockExcludes, tough: true,
			why: "one holder at a time: the next is admitted when the holder has released, and not before"},
		{name: "NotReentrant", fn: lockNotReentrant, tough: true,
			why: "a lock is not re-entrant: a second Lock of the same client, by the same handle too, waits for the first"},
		{name: "Order", fn: lockOrder, need: []need{fifo}, tough: true,
			why: "conflicting claims are admitted in order of arrival"},
		{name: "CancelLeavesNothing", fn: lockCancelLeavesNothing, tough: true,
			why: "a cancelled wait leaves nothing behind, whenever it is cancelled"},
		{name: "CancelMakesRoom", fn: lockCancelMakesRoom, tough: true,
			why: "a cancelled waiter makes room at once"},
		{name: "CancelWins", fn: lockCancelWins, tough: true,
			why: "a Lock whose ctx has ended does not hold, even if it is its turn"},
		{name: "DeadContext", fn: lockDeadContext, tough: true,
			why: "a ctx that has already ended fails, on a free lock too"},
		{name: "Deadline", fn: lockDeadline, tough: true,
			why: "a wait ends with its ctx, whose error and cause can be seen"},
		{name: "ContextBoundsWaitOnly", fn: lockContextBoundsWaitOnly, tough: true,
			why: "the ctx of Lock bounds the wait only"},
		{name: "TryBusy", fn: lockTryBusy, tough: true,
			why: "Try answers ErrBusy where Lock would wait; it never waits, and leaves nothing behind"},
		{name: "TryFree", fn: lockTryFree, tough: true,
			why: "Try holds what is free"},
		{name: "TryDoesNotJump", fn: lockTryDoesNotJump, need: []need{fifo}, tough: true,
			why: "Try never jumps the queue"},
		{name: "ReleaseAgain", fn: lockReleaseAgain, tough: true,
			why: "Release is idempotent: a second one is nil, and Err tells that the hold was released"},
		{name: "ReleaseOfTheGrant", fn: lockReleaseOfTheGrant, tough: true,
			why: "Release ends its own hold, not the one that the name has now"},
		{name: "ReleaseTogether", fn: lockReleaseTogether, tough: true,
			why: "two goroutines may release one hold at once, and one hold is released"},
		{name: "ReleaseAfterClose", fn: lockReleaseAfterClose, tough: true,
			why: "Release after Close is nil and touches nobody else"},
		{name: "TokensGrow", fn: lockTokensGrow, tough: true,
			why: "the token is positive and grows with every conflicting hold, over handles and clients"},
		{name: "TokensGrowOverRestarts", fn: lockTokensGrowOverRestarts, need: []need{fencing}, tough: true,
			why: "Info.Fencing: tokens grow when everybody has left in between"},
		{name: "CloseEndsHolds", fn: lockCloseEndsHolds, tough: true,
			why: "Close ends every hold, as released, and the next is admitted"},
		{name: "CloseEndsWaits", fn: lockCloseEndsWaits, tough: true,
			why: "Close ends every wait, as ErrClosed, and takes it out of line"},
		{name: "HoldContext", fn: lockHoldContext, tough: true,
			why: "Hold.Context ends with the hold, with Err as its cause, or with its parent"},
		{name: "With", fn: lockWith, tough: true,
			why: "With holds the lock while f runs, releases it however f ends, and returns f's error"},
		{name: "Errors", fn: lockErrors, tough: true,
			why: "every error is an *Error that names the operation, the backend and the lock"},
		{name: "Hammer", fn: lockHammer, tough: true,
			why: "nobody who waits is forgotten, however short the holds are"},
	}
	var out []check
	for _, x := range exclusives() {
		for _, r := range rows {
			out = append(out, check{
				name: x.prefix + "/" + r.name, why: r.why, tough: r.tough,
				need: append([]need{kind(x.kind)}, r.need...),
				fn:   func(t *T) { r.fn(bench{t, x, t.place(x.kind)}) },
			})
		}
	}
	return append(out, allChecks()...)
}

func lockExcludes(t bench) {
	a, b := t.open(), t.open()
	first := t.take(a, "the first")
	second := t.queue(b, 2, "the second")
	t.held("the first", first)
	t.release("the first", first)
	t.held("the second", second.get())
	third := t.queue(a, 2, "the third")
	t.release("the second", second.value)
	third.get()
}

// golang/go#37852 and harlowja/fasteners#130 are of this class.
func lockNotReentrant(t bench) {
	c := t.open()
	handle := t.on(c)
	first := begin(t.T, "the first Lock", handle.Lock).get()
	same := begin(t.T, "a second Lock by the same handle", handle.Lock)
	c.inLine(t.p, 2)
	same.waits()
	other := t.queue(c, 3, "a Lock by another handle of the client")
	t.try(c, "a TryLock by the client that holds").fails(coord.ErrBusy)
	t.release("the first", first)
	t.release("the second", same.get())
	other.get()
}

func lockOrder(t bench) {
	cs := t.opens(3)
	holder := t.take(cs[0], "the holder")
	var line []*attempt[*coord.Hold]
	for i := range 9 {
		line = append(line, t.queue(cs[i%3], i+2, fmt.Sprintf("number %d", i)))
	}
	t.release("the holder", holder)
	for i, a := range line {
		hold := a.get()
		for _, later := range line[i+1:] {
			select {
			case <-later.done:
				t.Fatalf("%s holds while number %d does", later.who, i)
			default:
			}
		}
		t.release(a.who, hold)
	}
	cs[0].free(t.p)
}

func lockErrors(t bench) {
	c := t.open()
	t.take(c, "the holder")
	_, err := t.on(c).TryLock(t.ctx)
	var e *coord.Error
	if !errors.As(err, &e) {
		t.Fatalf("the error %v is no *coord.Error", err)
	}
	if e.Op == "" || e.Name != t.p.Name || e.Backend != t.h.Expect.Name || !errors.Is(e.Err, coord.ErrBusy) {
		t.Errorf("the error is %#v; want an operation, backend %q, name %q and ErrBusy", e, t.h.Expect.Name, t.p.Name)
	}
}

// A guarded number is not atomic: the lock guards it, and -race looks on. Where
// the lock is known to lie, the detector is spared, and a lost update tells.
type guarded struct {
	n      int
	atomic atomic.Int64
	lies   bool
}

func (g *guarded) get() int {
	if g.lies {
		return int(g.atomic.Load())
	}
	return g.n
}

func (g *guarded) add(d int) {
	if g.lies {
		g.atomic.Store(g.atomic.Load() + int64(d))
		return
	}
	g.n += d
}

// The class of CURATOR-527 and apache/helix#44: the one ahead goes away between
// the look at the line and the wait for its departure.
func lockHammer(t bench) {
	clients, each := 16, 60
	if t.h.small {
		each = 10
	} else if t.h.Expect.Scope > backend.Process {
		each = 15
	}
	counter := guarded{lies: t.h.lies}
	var all []*attempt[struct{}]
	for _, c := range t.opens(clients) {
		l := t.on(c)
		all = append(all, beginError(t.T, "one of many", func(ctx context.Context) error {
			for range each {
				hold, err := l.Lock(ctx)
				if err != nil {
					return err
				}
				counter.add(1)
				t.release("one of many", hold)
			}
			return nil
		}))
	}
	for _, a := range all {
		if !within(t.patience()/2, a.done) {
			t.Fatalf("one of many still waits after %v; all goroutines:\n%s", t.patience()/2, stacks())
		}
		if a.err != nil {
			t.Fatalf("one of many: %v", a.err)
		}
	}
	if n := counter.get(); n != clients*each {
		t.Errorf("the counter that the lock guards is %d; want %d", n, clients*each)
	}
}
