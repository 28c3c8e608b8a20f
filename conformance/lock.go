package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// The class of etcd-io/etcd#10111 and CURATOR-79: some of these are cancelled
// before their entry is made, some in between, some while they wait.
func lockCancelLeavesNothing(t bench) {
	a, b, c := t.open(), t.open(), t.open()
	holder := t.take(a, "the holder")
	delays := []time.Duration{0, 10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
		10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond}
	var cancelled []*attempt[*coord.Hold]
	for i := range 50 {
		w := t.lock(b, fmt.Sprintf("the one cancelled after %v", delays[i%len(delays)]))
		cancelled = append(cancelled, w)
		t.tasks.Go(func() {
			time.Sleep(delays[i%len(delays)])
			w.cancel()
		})
	}
	for _, w := range cancelled {
		w.fails(context.Canceled)
	}
	a.inLine(t.p, 1)
	t.release("the holder", holder)
	next := t.take(c, "the next")
	if line := a.inLine(t.p, 1); line[0].Token != next.Token() {
		t.Errorf("the line is %s; want the next holder alone", show(line))
	}
}

func lockCancelMakesRoom(t bench) {
	a, b := t.open(), t.open()
	holder := t.take(a, "the holder")
	gone := t.queue(b, 2, "the one to cancel")
	next := t.queue(a, 3, "the next")
	last := t.queue(b, 4, "the last")
	gone.cancel()
	gone.fails(context.Canceled)
	b.inLine(t.p, 3)
	next.waits()
	t.release("the holder", holder)
	next.get()
	last.waits()
	t.release("the next", next.value)
	last.get()
}

func lockCancelWins(t bench) {
	a, b := t.open(), t.open()
	for range 5 {
		holder := t.take(a, "the holder")
		w := t.queue(b, 2, "the cancelled one")
		w.cancel()
		t.release("the holder", holder)
		w.fails(context.Canceled)
		a.free(t.p)
		t.release("an attempt", t.try(a, "an attempt after the cancelled one").get())
	}
}

func lockDeadContext(t bench) {
	c := t.open()
	dead, cancel := context.WithCancel(t.ctx)
	cancel()
	late, cancel := context.WithDeadline(t.ctx, time.Now().Add(-time.Hour))
	defer cancel()
	for _, lock := range []func(context.Context) (*coord.Hold, error){t.on(c).Lock, t.on(c).TryLock} {
		if h, err := lock(dead); h != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("with a cancelled ctx: %v, %v; want no hold and context.Canceled", h, err)
		}
		if h, err := lock(late); h != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the deadline: %v, %v; want no hold and context.DeadlineExceeded", h, err)
		}
	}
	c.free(t.p)
}

func lockDeadline(t bench) {
	c := t.open()
	t.take(c, "the holder")
	cause := errors.New("the caller's reason")
	ctx, cancel := context.WithTimeoutCause(t.ctx, 50*time.Millisecond, cause)
	defer cancel()
	w := begin(t.T, "the claim with a deadline", func(context.Context) (*coord.Hold, error) { return t.on(c).Lock(ctx) })
	w.fails(context.DeadlineExceeded)
	if !errors.Is(w.err, cause) {
		t.Errorf("the error is %q; want the ctx's cause in it", w.err)
	}
	if ctx.Err() == nil {
		t.Errorf("the claim gave up before its deadline")
	}
	c.inLine(t.p, 1)
}

func lockContextBoundsWaitOnly(t bench) {
	c := t.open()
	first := t.take(c, "the first")
	second := t.queue(c, 2, "the second")
	t.release("the first", first)
	hold := second.get()
	second.cancel()
	t.settle()
	t.held("the hold whose ctx has ended", hold)
	t.try(c, "an attempt meanwhile").fails(coord.ErrBusy)
	t.release("the hold whose ctx has ended", hold)
}

func lockTryBusy(t bench) {
	a, b := t.open(), t.open()
	holder := t.take(a, "the holder")
	w := t.queue(b, 2, "the waiter")
	for _, c := range []*client{a, b} {
		t.try(c, "an attempt at what is held").fails(coord.ErrBusy)
	}
	a.inLine(t.p, 2)
	w.waits()
	t.release("the holder", holder)
	t.release("the waiter", w.get())
	t.release("an attempt", t.try(a, "an attempt when all have gone").get())
}

func lockTryFree(t bench) {
	a, b := t.open(), t.open()
	for range 3 {
		for _, c := range []*client{a, b} {
			hold := t.try(c, "an attempt at what is free").get()
			t.held("what an attempt got", hold)
			t.release("what an attempt got", hold)
		}
	}
}

func lockTryDoesNotJump(t bench) {
	a, b := t.open(), t.open()
	for range 5 {
		holder := t.take(a, "the holder")
		w := t.queue(b, 2, "the waiter")
		t.release("the holder", holder)
		t.try(a, "an attempt while the waiter is next").fails(coord.ErrBusy)
		t.release("the waiter", w.get())
		a.free(t.p)
	}
}

func lockReleaseAgain(t bench) {
	a := t.open()
	hold := t.take(a, "the hold")
	t.held("the hold", hold)
	if hold.Name() != t.p.Name {
		t.Errorf("Name is %q; want %q", hold.Name(), t.p.Name)
	}
	for range 3 {
		t.release("the hold", hold)
		t.over("the hold", hold, coord.ErrReleased)
	}
	if errors.Is(hold.Err(), coord.ErrLost) {
		t.Errorf("Err of a released hold is %v", hold.Err())
	}
	a.free(t.p)
}

// The class of etcd-io/etcd#14652: an unlock by name frees the next holder.
func lockReleaseOfTheGrant(t bench) {
	a, b, c := t.open(), t.open(), t.open()
	old := t.take(a, "the first")
	t.release("the first", old)
	now := t.take(b, "the second")
	w := t.queue(c, 2, "the third")
	t.release("the first, again,", old)
	w.waits()
	t.held("the second", now)
	again := t.queue(a, 3, "the first, who comes back,")
	t.release("the first, once more,", old)
	again.waits()
	t.release("the second", now)
	t.release("the third", w.get())
	t.held("the first, who came back,", again.get())
}

func lockReleaseTogether(t bench) {
	a, b := t.open(), t.open()
	for range 20 {
		hold := t.take(a, "the hold")
		r1 := beginError(t.T, "one of two Releases", ignoringContext(hold.Release))
		r2 := beginError(t.T, "one of two Releases", ignoringContext(hold.Release))
		next := t.lock(b, "the next")
		for _, r := range []*attempt[struct{}]{r1, r2} {
			if !within(t.h.Slack, r.done) {
				t.Fatalf("a Release still waits after %v", t.h.Slack)
			}
			if r.err != nil && !(t.h.flaky && errors.Is(r.err, coord.ErrUnavailable)) {
				t.Fatalf("one of two Releases: %v; want nil", r.err)
			}
		}
		h := next.get()
		t.held("the next", h)
		t.release("the next", h)
		a.free(t.p)
	}
}

func lockReleaseAfterClose(t bench) {
	a, b := t.open(), t.open()
	hold := t.take(a, "the hold")
	a.shut()
	next := t.take(b, "the next")
	t.release("the hold of a closed client", hold)
	t.held("the next", next)
	t.try(b, "an attempt").fails(coord.ErrBusy)
}

func lockTokensGrow(t bench) {
	cs := t.opens(3)
	last := uint64(0)
	see := func(h *coord.Hold) {
		if h.Token() <= last {
			t.Fatalf("a hold has token %d after %d; want a greater one", h.Token(), last)
		}
		last = h.Token()
	}
	for i := range 9 {
		hold := t.take(cs[i%3], "a hold")
		see(hold)
		w := t.queue(cs[(i+1)%3], 2, "a hold that waited")
		t.release("a hold", hold)
		see(w.get())
		t.release("a hold that waited", w.value)
		if i%3 == 2 {
			h := t.try(cs[0], "an attempt").get()
			see(h)
			cs[0].shut()
			cs[0] = t.open()
		}
	}
}

func lockTokensGrowOverRestarts(t bench) {
	last := uint64(0)
	for range 4 {
		c := t.open()
		hold := t.take(c, "a hold")
		if hold.Token() <= last {
			t.Fatalf("after everybody had left a hold has token %d, and the one before had %d; want a greater one", hold.Token(), last)
		}
		last = hold.Token()
		c.shut()
		// Where nothing is kept the clock has to do.
		time.Sleep(time.Millisecond)
	}
}

func lockCloseEndsHolds(t bench) {
	a, b := t.open(), t.open()
	hold := t.take(a, "the holder")
	w := t.queue(b, 2, "the waiter")
	a.shut()
	t.over("the hold of a closed client", hold, coord.ErrReleased)
	t.held("the waiter", w.get())
	b.inLine(t.p, 1)
	t.lock(a, "Lock on a closed client").fails(coord.ErrClosed)
	t.try(a, "TryLock on a closed client").fails(coord.ErrClosed)
	b.inLine(t.p, 1)
}

func lockCloseEndsWaits(t bench) {
	a, b := t.open(), t.open()
	hold := t.take(a, "the holder")
	w := t.queue(b, 2, "the waiter")
	last := t.queue(a, 3, "the last")
	b.shut()
	w.fails(coord.ErrClosed)
	a.inLine(t.p, 2)
	t.release("the holder", hold)
	last.get()
}

func lockHoldContext(t bench) {
	c := t.open()
	hold := t.take(c, "the hold")
	ctx, cancel := hold.Context(t.ctx)
	defer cancel()
	child, stop := hold.Context(ctx)
	parent, end := context.WithCancel(t.ctx)
	other, drop := hold.Context(parent)
	defer drop()
	end()
	if !within(t.h.Slack, other.Done()) || ctx.Err() != nil {
		t.Errorf("a hold's context ended with %v when the parent of another did", ctx.Err())
	}
	stop()
	if child.Err() == nil || ctx.Err() != nil {
		t.Errorf("cancelling a child gives %v, and %v for its parent", child.Err(), ctx.Err())
	}
	t.held("the hold whose contexts were cancelled", hold)
	t.release("the hold", hold)
	if !within(t.h.Slack, ctx.Done()) {
		t.Fatalf("the hold's context goes on after Release")
	}
	if cause := context.Cause(ctx); !errors.Is(cause, coord.ErrReleased) {
		t.Errorf("the cause is %v; want ErrReleased", cause)
	}
	late, cancel := hold.Context(t.ctx)
	defer cancel()
	if late.Err() == nil {
		t.Errorf("the context of a released hold goes on")
	}
}

func lockWith(t bench) {
	a, b := t.open(), t.open()
	reason := errors.New("f's error")
	ran := false
	err := coord.With(t.ctx, t.on(a), func(ctx context.Context, h *coord.Hold) error {
		ran = true
		t.held("the hold of With", h)
		t.try(b, "an attempt meanwhile").fails(coord.ErrBusy)
		return reason
	})
	if !ran || !errors.Is(err, reason) {
		t.Errorf("With: ran %v, error %v; want f's error", ran, err)
	}
	a.free(t.p)
	func() {
		defer func() {
			if recover() == nil {
				t.Errorf("With swallowed a panic")
			}
		}()
		_ = coord.With(t.ctx, t.on(a), func(context.Context, *coord.Hold) error { panic("f panics") })
	}()
	a.free(t.p)
	err = coord.With(t.ctx, t.on(b), func(ctx context.Context, h *coord.Hold) error {
		t.release("the hold, early,", h)
		if !within(t.h.Slack, ctx.Done()) {
			t.Errorf("f's context goes on after the hold")
		}
		return nil
	})
	t.ok("With whose f released early", err)
	hold := t.take(a, "the holder")
	ctx, cancel := context.WithTimeout(t.ctx, 20*time.Millisecond)
	defer cancel()
	err = coord.With(ctx, t.on(b), func(context.Context, *coord.Hold) error {
		t.Errorf("f runs without the lock")
		return nil
	})
	t.isError("With that could not lock", err, context.DeadlineExceeded)
	t.release("the holder", hold)
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

// The class of CURATOR-527 and apache/helix#44: the one ahead goes away between
// the look at the line and the wait for its departure.
func lockHammer(t bench) {
	clients, each := 16, 60
	if t.h.small {
		each = 10
	} else if t.h.Expect.Scope > backend.Process {
		each = 15
	}
	counter := 0 // not atomic: the lock guards it, and -race looks on
	var all []*attempt[struct{}]
	for _, c := range t.opens(clients) {
		l := t.on(c)
		all = append(all, beginError(t.T, "one of many", func(ctx context.Context) error {
			for range each {
				hold, err := l.Lock(ctx)
				if err != nil {
					return err
				}
				counter++
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
	if counter != clients*each {
		t.Errorf("the counter that the lock guards is %d; want %d", counter, clients*each)
	}
}
