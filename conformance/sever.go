package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
)

// consul, etcd and curator have all had holders that learnt too late.
func sessionToldBeforeNext(t *T) {
	a, b := t.open(), t.open()
	hold := a.lock("the holder").get()
	told := false
	next := begin(t, "the next", func(ctx context.Context) (*coord.Hold, error) {
		h, err := b.RWLocker(t.name).Lock(ctx)
		select {
		case <-hold.Done():
			told = true
		default:
		}
		return h, err
	})
	b.inLine(t.place(backend.RWMutex), 2)
	next.waits()
	until, limited := hold.Deadline()
	heal := t.h.Sever(t, a.b)
	defer heal()
	cut := time.Now()
	h := next.getWithin(t.forgets())
	granted := time.Now()
	if !told {
		t.Errorf("the next was admitted %v after the cut, and Done of the holder was open", granted.Sub(cut))
	}
	t.lost("the holder", hold)
	if late, _ := hold.Deadline(); limited && (granted.Before(until) || granted.Before(late)) {
		t.Errorf("the next was admitted %v after the cut, and Deadline had promised %v", granted.Sub(cut), until.Sub(cut))
	}
	if h.Token() <= hold.Token() {
		t.Errorf("the next has token %d after %d; want a greater one", h.Token(), hold.Token())
	}
}

func sessionLostThenLock(t *T) {
	a, b := t.open(), t.open()
	hold := a.lock("the holder").get()
	w := b.queued(b.lock("the next"), 2)
	heal := t.h.Sever(t, a.b)
	next := w.getWithin(t.forgets())
	t.lost("the holder", hold)
	heal()
	a.reached()
	for range 2 {
		t.isError("Release of a lost hold", hold.Release(), coord.ErrLost)
	}
	if err := hold.Downgrade(t.ctx); err == nil {
		t.Errorf("Downgrade of a lost hold succeeded")
	}
	t.held("the next", next)
	again := a.lock("the one that lost it")
	b.lineWithin(t.place(backend.RWMutex), 2, t.forgets())
	again.waits()
	t.release("the next", next)
	second := again.getWithin(t.forgets())
	if second.Token() <= next.Token() {
		t.Errorf("the new hold has token %d after %d; want a greater one", second.Token(), next.Token())
	}
	t.isError("Release of the lost hold, again,", hold.Release(), coord.ErrLost)
	t.held("the new hold", second)
	t.release("the new hold", second)
	b.free(t.place(backend.RWMutex))
}

func sessionLossEndsWith(t *T) {
	a := t.open()
	all := begin(t, "All", coord.All(a.Locker(t.name+"-1"), a.Locker(t.name+"-2")).Lock).get()
	var heal func()
	with := beginError(t, "With", func(ctx context.Context) error {
		return coord.With(ctx, a.RWLocker(t.name), func(ctx context.Context, h *coord.Hold) error {
			heal = t.h.Sever(t, a.b)
			if !within(t.forgets(), ctx.Done()) {
				t.Errorf("f's ctx goes on %v after the cut", t.forgets())
			}
			if !errors.Is(context.Cause(ctx), coord.ErrLost) {
				t.Errorf("the cause of f's ctx is %v; want ErrLost", context.Cause(ctx))
			}
			return nil
		})
	})
	with.failsWithin(2*t.forgets(), coord.ErrLost)
	t.lost("All", all)
	heal()
}

func sessionDowngrade(t *T) {
	a, b := t.open(), t.open()
	hold := a.lock("the writer").get()
	near := b.queued(a.rlock("a reader of the same client"), 2)
	far := b.queued(b.rlock("a reader of another client"), 3)
	heal := t.h.Sever(t, a.b)
	ctx, cancel := context.WithTimeout(t.ctx, t.h.Expect.Expiry/10)
	defer cancel()
	if err := hold.Downgrade(ctx); err == nil {
		t.Errorf("Downgrade without a service succeeded")
	}
	heal()
	a.reached()
	t.ok("Downgrade, again,", hold.Downgrade(t.ctx))
	t.held("the writer, now a reader,", hold)
	near.get()
	far.get()
}

func sessionBlip(t *T) {
	a, b := t.open(), t.open()
	hold := a.lock("the holder").get()
	w := b.queued(b.lock("the next"), 2)
	for range 3 {
		heal := t.h.Sever(t, a.b)
		time.Sleep(t.h.Expect.Expiry / 4)
		heal()
		time.Sleep(t.h.Expect.Expiry / 2)
		t.held("the holder", hold)
		w.waits()
	}
	t.release("the holder", hold)
	t.release("the next", w.get())
	// It works as before, for what was waiting, too.
	hold = b.lock("the next holder").get()
	w = a.queued(a.lock("the one that was cut off"), 2)
	heal := t.h.Sever(t, a.b)
	time.Sleep(t.h.Expect.Expiry / 4)
	t.release("the next holder", hold)
	heal()
	t.release("the one that was cut off", w.getWithin(t.forgets()))
}

func sessionSeveredWaiter(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.RWMutex)
	hold := b.lock("the holder").get()
	w := a.queued(a.lock("the waiter that is cut off"), 2)
	heal := t.h.Sever(t, a.b)
	b.lineWithin(p, 1, t.forgets())
	t.release("the holder", hold)
	next := b.lock("the next").get()
	w.failsWithin(2*t.forgets(), coord.ErrUnavailable, coord.ErrLost)
	heal()
	t.settle()
	b.inLine(p, 1)
	t.held("the next", next)
}

func sessionSeveredWatch(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Group)
	l := b.take("a member", p, presentClaim)
	g := a.gone("Gone", p, l.ID())
	g.waits()
	v := a.load("Load", p, a.register(p).Version)
	v.waits()
	heal := t.h.Sever(t, a.b)
	g.failsWithin(2*t.forgets(), coord.ErrUnavailable)
	v.failsWithin(2*t.forgets(), coord.ErrUnavailable)
	heal()
	a.reached()
	t.held("the member", l)
	g = a.gone("Gone after the cut", p, l.ID())
	g.waits()
	t.give("the member", l)
	g.getWithin(t.forgets())
}

func sessionUnavailable(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.RWMutex)
	version := a.register(p).Version
	heal := t.h.Sever(t, a.b)
	calls := []*attempt[struct{}]{
		beginError(t, "Acquire", func(ctx context.Context) error { _, err := a.b.Acquire(ctx, p, exclusiveClaim); return err }),
		beginError(t, "Observe", func(ctx context.Context) error { _, err := a.b.Observe(ctx, p, ""); return err }),
		beginError(t, "Load", func(ctx context.Context) error { _, err := a.b.Load(ctx, p, ""); return err }),
		beginError(t, "Gone", func(ctx context.Context) error { return a.b.Gone(ctx, p, "somebody") }),
		beginError(t, "Store", func(ctx context.Context) error { _, err := a.b.Store(ctx, p, []byte("x"), version); return err }),
	}
	for _, c := range calls {
		c.failsWithin(2*t.forgets(), backend.ErrUnavailable)
	}
	heal()
	a.reached()
	// The Store was perhaps made; a repeat finds out.
	v := a.load("Load after the cut", p, "").getWithin(t.forgets())
	if _, err := a.b.Store(t.ctx, p, []byte("y"), version); v.Version != version && !errors.Is(err, backend.ErrConflict) {
		t.Errorf("Store on the version from before the cut: %v; want ErrConflict, since the first was made", err)
	}
	t.release("the lock", a.lock("Lock after the cut").getWithin(t.forgets()))
	b.lineWithin(p, 0, t.forgets())
	b.store(p, nil, b.register(p).Version)
}

// etcd-io/etcd#18082 and vitessio/vitess#11678 are of this class.
func sessionDeadline(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.RWMutex)
	hold := b.lock("the holder").get()
	const patience = 300 * time.Millisecond
	limited := func(who string) *attempt[*coord.Hold] {
		return begin(t, who, func(ctx context.Context) (*coord.Hold, error) {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			return a.RWLocker(t.name).Lock(ctx)
		})
	}
	queued := limited("a Lock that waits when it is cut off")
	b.inLine(p, 2)
	heal := t.h.Sever(t, a.b)
	fresh := limited("a Lock that is cut off from the start")
	limit := patience + 500*time.Millisecond + t.h.Slack
	queued.failsWithin(limit, context.DeadlineExceeded, coord.ErrUnavailable)
	fresh.failsWithin(limit, context.DeadlineExceeded, coord.ErrUnavailable)
	heal()
	a.reached()
	b.lineWithin(p, 1, t.forgets())
	t.release("the holder", hold)
	t.release("the lock", a.lock("Lock after the cut").getWithin(t.forgets()))
	b.lineWithin(p, 0, t.forgets())
}

func sessionRelease(t *T) {
	a, b := t.open(), t.open()
	hold := a.lock("the holder").get()
	w := b.queued(b.lock("the next"), 2)
	heal := t.h.Sever(t, a.b)
	r := beginError(t, "Release", ignoringContext(hold.Release))
	if !within(t.bounded(), r.done) {
		t.Fatalf("Release still waits %v after the cut", t.bounded())
	}
	if r.err != nil {
		t.isError("Release without an answer", r.err, coord.ErrUnavailable, coord.ErrLost)
	}
	if !within(t.h.Slack, hold.Done()) || hold.Err() == nil {
		t.Fatalf("the hold goes on after Release; Err is %v", hold.Err())
	}
	w.getWithin(t.forgets())
	heal()
	t.settle()
	b.inLine(t.place(backend.RWMutex), 1)
}

func sessionClose(t *T) {
	a, b := t.open(), t.open()
	other := t.name + "-other"
	hold := a.lock("the holder").get()
	begin(t, "the holder of another lock", b.Locker(other).Lock).get()
	mine := begin(t, "a waiter of the client that closes", a.Locker(other).Lock)
	b.inLine(backend.Place{Kind: backend.Mutex, Name: other}, 2)
	w := b.queued(b.lock("the next"), 2)
	heal := t.h.Sever(t, a.b)
	defer heal()
	a.closed = true
	closing := beginError(t, "Close", ignoringContext(a.Client.Close))
	if !within(t.bounded(), closing.done) {
		t.Fatalf("Close still waits %v after the cut; all goroutines:\n%s", t.bounded(), stacks())
	}
	mine.failsWithin(t.h.Slack, coord.ErrClosed)
	if !within(t.h.Slack, hold.Done()) || hold.Err() == nil {
		t.Errorf("the hold of a closed client goes on; Err is %v", hold.Err())
	}
	w.getWithin(t.forgets())
	b.lineWithin(backend.Place{Kind: backend.Mutex, Name: other}, 1, t.forgets())
}

func sessionLostInside(t *T) {
	a, b, c := t.open(), t.open(), t.open()
	e1, e2, e3 := a.enter("the one that is cut off", 3), b.enter("b", 3), c.enter("c", 3)
	t.together(e1.get(), e2.get(), e3.get())
	heal := t.h.Sever(t, a.b)
	l2, l3 := t.leave("b", e2.value), t.leave("c", e3.value)
	l2.getWithin(t.forgets())
	l3.getWithin(t.forgets())
	t.lost("the one that is cut off", e1.value)
	heal()
	a.reached()
	t.leave("the one that was cut off", e1.value).failsWithin(t.forgets(), coord.ErrLost)
	b.empty(t.place(backend.Barrier))
}
