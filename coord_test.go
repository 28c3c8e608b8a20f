package coord_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/backend/memory"
)

// open returns a client of its own space, and the backend below it.
func open(tb testing.TB, opts ...coord.Option) (*coord.Client, *memory.Backend) {
	tb.Helper()
	b := memory.New()
	c, err := coord.New(b, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	return c, b
}

func lock(tb testing.TB, l coord.Locker) *coord.Hold {
	tb.Helper()
	h, err := l.Lock(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

func TestOpen(t *testing.T) {
	c, err := coord.Open(t.Context(), "memory://")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Info().Name; got != "memory" {
		t.Errorf("Info().Name = %q, want memory", got)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	var e *coord.Error
	_, err = coord.Open(t.Context(), "memroy://")
	if !errors.As(err, &e) || e.Op != "open" || !errors.Is(err, coord.ErrInvalid) || !strings.Contains(err.Error(), `"memory"`) {
		t.Errorf("a misspelt scheme: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := coord.Open(ctx, "memory://"); !errors.Is(err, context.Canceled) {
		t.Errorf("with a dead ctx: %v, want context.Canceled", err)
	}
}

func TestUncontendedAllocations(t *testing.T) {
	c, _ := open(t)
	l := c.Locker("orders")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if n := testing.AllocsPerRun(1000, func() {
		h, err := l.Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Release(); err != nil {
			t.Fatal(err)
		}
	}); n > 3 {
		t.Errorf("Lock and Release cost %v allocations, want at most 3", n)
	}
}

func TestErrorNamesPlace(t *testing.T) {
	c, _ := open(t)
	defer lock(t, c.Locker("orders")).Release()
	_, err := c.Locker("orders").TryLock(t.Context())
	const want = `coord: try lock "orders" (memory): busy`
	if err == nil || err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}

func TestBadArgumentsAreToldAtFirstUse(t *testing.T) {
	c, _ := open(t)
	ctx := t.Context()
	for name, f := range map[string]func() error{
		"empty name":      func() error { _, err := c.Locker("").Lock(ctx); return err },
		"bad name":        func() error { _, err := c.RWLocker("a//b").TryRLock(ctx); return err },
		"no parties":      func() error { _, err := c.Barrier("b", 0).Enter(ctx); return err },
		"no permits":      func() error { _, err := c.Semaphore("s", 0).Acquire(ctx, 1); return err },
		"none wanted":     func() error { _, err := c.Semaphore("s", 1).Acquire(ctx, 0); return err },
		"too many wanted": func() error { _, err := c.Semaphore("s", 1).TryAcquire(ctx, 2); return err },
		"no count":        func() error { return c.Latch("l", 0).Wait(ctx) },
		"bad reset":       func() error { return c.Latch("l", 1).Reset(ctx, 0) },
		"big data":        func() error { _, err := c.Group("g").Join(ctx, make([]byte, 1<<20)); return err },
		"All of none":     func() error { _, err := coord.All().Lock(ctx); return err },
		"All with twice":  func() error { _, err := coord.All(c.Locker("a"), c.RWLocker("a")).Lock(ctx); return err },
		"bad inspect":     func() error { _, err := c.Inspect(ctx, backend.Mutex, ".."); return err },
	} {
		if err := f(); !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

func TestRequire(t *testing.T) {
	met := coord.Requirement{Scope: backend.Process, FIFO: true, Fencing: true, Kinds: []backend.Kind{backend.Barrier}}
	c, err := coord.New(memory.New(), coord.Require(met))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	b := memory.New()
	_, err = coord.New(b, coord.Require(coord.Requirement{Scope: backend.Network, Durable: true}))
	if !errors.Is(err, coord.ErrUnsupported) {
		t.Fatalf("error %v, want ErrUnsupported", err)
	}
	for _, word := range []string{"network", "registers"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not tell of the %s", err, word)
		}
	}
	if _, err := b.Load(t.Context(), backend.Place{Kind: backend.Latch, Name: "x"}, ""); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("the refused backend was left open: %v", err)
	}
}

func TestObserverAndLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			mu     sync.Mutex
			events []coord.Event
			log    bytes.Buffer
		)
		c, b := open(t,
			coord.WithObserver(func(e coord.Event) { mu.Lock(); defer mu.Unlock(); events = append(events, e) }),
			coord.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
			coord.WithOwner("tester"))
		first := lock(t, c.Locker("x"))
		entries, err := c.Inspect(t.Context(), backend.Mutex, "x")
		if err != nil || len(entries) != 1 || entries[0].Claim.Owner != "tester" {
			t.Errorf("Inspect: %+v, %v", entries, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Locker("x").Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second Lock: %v, want the deadline", err)
		}
		time.Sleep(time.Second)
		if err := first.Release(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		lock(t, c.Locker("x"))
		b.Lose(backend.Place{Kind: backend.Mutex, Name: "x"}, errors.New("pulled the plug"))
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		var types []coord.EventType
		for _, e := range events {
			types = append(types, e.Type)
		}
		want := []coord.EventType{coord.EventAcquired, coord.EventGaveUp, coord.EventReleased, coord.EventAcquired, coord.EventLost}
		if !slices.Equal(types, want) {
			t.Fatalf("events %v, want %v", types, want)
		}
		if e := events[1]; e.Wait != time.Second || !errors.Is(e.Err, context.DeadlineExceeded) {
			t.Errorf("gave up after %v with %v, want 1s and the deadline", e.Wait, e.Err)
		}
		if e := events[2]; e.Held != 2*time.Second || e.Token != first.Token() {
			t.Errorf("released after %v, want 2s", e.Held)
		}
		if text := log.String(); strings.Count(text, "WARN") != 1 || !strings.Contains(text, "pulled the plug") {
			t.Errorf("log %q, want one warning of the loss", text)
		}
	})
}

func TestWith(t *testing.T) {
	c, b := open(t)
	trouble := errors.New("trouble")
	err := coord.With(t.Context(), c.Locker("x"), func(ctx context.Context, h *coord.Hold) error {
		if h.Err() != nil || ctx.Err() != nil {
			t.Errorf("inside: %v, %v, want nil", h.Err(), ctx.Err())
		}
		return trouble
	})
	if err != trouble {
		t.Errorf("With returned %v, want what f did", err)
	}
	err = coord.With(t.Context(), c.Locker("x"), func(ctx context.Context, _ *coord.Hold) error {
		b.Lose(backend.Place{Kind: backend.Mutex, Name: "x"}, errors.New("gone"))
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, coord.ErrLost) {
			t.Errorf("the cause is %v, want ErrLost", cause)
		}
		return trouble
	})
	if !errors.Is(err, trouble) || !errors.Is(err, coord.ErrLost) {
		t.Errorf("With returned %v, want the loss and what f returned", err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic of f was swallowed")
			}
		}()
		_ = coord.With(t.Context(), c.Locker("x"), func(context.Context, *coord.Hold) error { panic("f") })
	}()
	if _, err := c.Locker("x").TryLock(t.Context()); err != nil {
		t.Errorf("after a panic in With: %v, want the lock to be free", err)
	}
}

func TestAllTakesOneOrder(t *testing.T) {
	c, _ := open(t)
	a, b := c.Locker("a"), c.Locker("b")
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			l := coord.All(a, coord.All(b))
			if i%2 == 0 {
				l = coord.All(b, a)
			}
			h, err := l.Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			if len(h.Parts()) != 2 || h.Token() < h.Parts()[0].Token() {
				t.Errorf("parts %v, token %d", h.Parts(), h.Token())
			}
			if err := h.Release(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestAllOrNone(t *testing.T) {
	c, b := open(t)
	held := lock(t, c.Locker("b"))
	all := coord.All(c.Locker("a"), coord.RLocker(c.RWLocker("b")))
	if _, err := all.TryLock(t.Context()); !errors.Is(err, coord.ErrBusy) {
		t.Errorf("TryLock: %v, want ErrBusy", err)
	}
	if h, err := c.Locker("a").TryLock(t.Context()); err != nil {
		t.Errorf("the first of two was kept: %v", err)
	} else {
		h.Release()
	}
	held.Release()
	h := lock(t, all)
	b.Lose(backend.Place{Kind: backend.Mutex, Name: "a"}, errors.New("gone"))
	<-h.Done()
	if err := h.Err(); !errors.Is(err, coord.ErrLost) {
		t.Errorf("Err = %v, want ErrLost", err)
	}
	if err := h.Release(); !errors.Is(err, coord.ErrLost) {
		t.Errorf("Release = %v, want ErrLost", err)
	}
	if _, err := c.Locker("b").TryLock(t.Context()); err != nil {
		t.Errorf("the other part was kept: %v", err)
	}
}

func TestLatchSurvivesLostAnswers(t *testing.T) {
	c, b := open(t)
	ctx := t.Context()
	l := c.Latch("start", 3)
	for range 3 {
		b.Inject(memory.Fault{Op: memory.OpStore, Err: coord.ErrUnavailable, After: true, Times: 1})
		if err := l.CountDown(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Latch("start", 2).CountDown(ctx); !errors.Is(err, coord.ErrMismatch) {
		t.Errorf("another count: %v, want ErrMismatch", err)
	}
	if err := l.Reset(ctx, 2); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if err := l.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait after Reset: %v, want the deadline", err)
	}
	if err := l.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	if v, err := b.Load(ctx, backend.Place{Kind: backend.Latch, Name: "start"}, ""); err != nil || v.Data != nil {
		t.Errorf("after Remove: %q, %v, want nothing", v.Data, err)
	}
}

func TestLatchOpenedAndClosedWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := open(t)
		l := c.Latch("l", 1)
		done := make(chan error, 1)
		go func() { done <- l.Wait(t.Context()) }()
		synctest.Wait()
		if err := l.CountDown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.Reset(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("Wait: %v, want nil", err)
		}
	})
}
