package memory

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocoord/coord/backend"
)

var exclusive = backend.Claim{Mode: backend.Exclusive}

func TestNamedSpaces(t *testing.T) {
	a, b, other := Open("shared"), Open("shared"), Open("other")
	defer other.Close()
	l, err := a.Acquire(t.Context(), lock, exclusive)
	if err != nil {
		t.Fatal(err)
	}
	try := exclusive
	try.NoWait = true
	if _, err := b.Acquire(t.Context(), lock, try); !errors.Is(err, backend.ErrBusy) {
		t.Errorf("another client of the space: %v, want ErrBusy", err)
	}
	if _, err := other.Acquire(t.Context(), lock, try); err != nil {
		t.Errorf("a client of another space: %v, want nil", err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	register := backend.Place{Kind: backend.Latch, Name: "l"}
	if _, err := a.Store(t.Context(), register, []byte("kept"), "0"); err != nil {
		t.Fatal(err)
	}
	a.Close()
	b.Close()
	c := Open("shared")
	defer c.Close()
	v, err := c.Load(t.Context(), register, "")
	if err != nil || string(v.Data) != "kept" {
		t.Errorf("the register after all clients left: %q, %v", v.Data, err)
	}
	if _, err := c.Store(t.Context(), register, nil, v.Version); err != nil {
		t.Fatal(err)
	}
	c.Close()
	spaces.mu.Lock()
	defer spaces.mu.Unlock()
	if spaces.byName["shared"] != nil {
		t.Error("a space that nobody uses is kept")
	}
}

func TestCloseEndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		holder := b.Join()
		defer holder.Close()
		if _, err := holder.Acquire(t.Context(), lock, exclusive); err != nil {
			t.Fatal(err)
		}
		errs := make(chan error, 3)
		go func() { _, err := b.Acquire(context.Background(), lock, exclusive); errs <- err }()
		go func() { _, err := b.Load(context.Background(), lock, "0"); errs <- err }()
		synctest.Wait()
		go func() {
			r, err := b.Observe(context.Background(), lock, "")
			if err == nil {
				err = b.Gone(context.Background(), lock, r.Entries[0].ID)
			}
			errs <- err
		}()
		synctest.Wait()
		b.Close()
		for range cap(errs) {
			if err := <-errs; !errors.Is(err, backend.ErrClosed) {
				t.Errorf("a wait of a closed client: %v, want ErrClosed", err)
			}
		}
		if n := len(roster(t, holder, lock)); n != 1 {
			t.Errorf("%d in line after the close, want 1", n)
		}
	})
}

func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		defer b.Close()
		trouble := errors.New("trouble")
		b.Inject(Fault{Op: OpAcquire, Err: trouble, After: true, Times: 1})
		if _, err := b.Acquire(t.Context(), lock, exclusive); err != trouble {
			t.Errorf("Acquire: %v, want the injected error", err)
		}
		if n := len(roster(t, b, lock)); n != 0 {
			t.Errorf("%d in line after an Acquire that failed, want 0", n)
		}

		b.Inject(Fault{Op: OpStore, Place: lock, Err: backend.ErrUnavailable, After: true, Times: 1})
		if _, err := b.Store(t.Context(), lock, []byte("x"), "0"); !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("Store: %v, want ErrUnavailable", err)
		}
		if v, err := b.Load(t.Context(), lock, ""); err != nil || string(v.Data) != "x" {
			t.Errorf("after a Store that took effect: %q, %v", v.Data, err)
		}

		b.Inject(Fault{Delay: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := b.Acquire(ctx, lock, exclusive); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("a delayed Acquire: %v after %v, want the deadline after 1s", err, time.Since(start))
		}
		b.Heal()
		l, err := b.Acquire(t.Context(), lock, exclusive)
		if err != nil {
			t.Fatal(err)
		}
		if n := b.Lose(lock, trouble); n != 1 {
			t.Errorf("%d leases were lost, want 1", n)
		}
		<-l.Done()
		if err := l.Err(); !errors.Is(err, backend.ErrLost) || !errors.Is(err, trouble) {
			t.Errorf("a lost lease: %v, want ErrLost with its cause", err)
		}
		if err := l.Release(t.Context()); !errors.Is(err, backend.ErrLost) {
			t.Errorf("Release of a lost lease: %v, want ErrLost", err)
		}
	})
}

// TestReleaseFailsAfterAll shows that a Release whose fault strikes before it
// took effect ends the lease all the same, as the contract wants.
func TestReleaseFailsAfterAll(t *testing.T) {
	b := New()
	defer b.Close()
	l, err := b.Acquire(t.Context(), lock, exclusive)
	if err != nil {
		t.Fatal(err)
	}
	b.Inject(Fault{Op: OpRelease, Err: backend.ErrUnavailable, Times: 1})
	if err := l.Release(t.Context()); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("Release: %v, want ErrUnavailable", err)
	}
	if n := len(roster(t, b, lock)); n != 0 {
		t.Errorf("%d in line, want 0", n)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("a second Release: %v, want nil", err)
	}
}

func TestURL(t *testing.T) {
	for _, bad := range []string{"memory://a,b", "memory://a/b", "memory://u@a", "memory://a?x=1"} {
		if _, err := backend.Parse(bad); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", bad, err)
		}
	}
	for _, good := range []string{"memory://", "memory://jobs", "memory://jobs/"} {
		open, err := backend.Parse(good)
		if err != nil {
			t.Fatal(err)
		}
		b, err := open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b.Close()
	}
}

func BenchmarkAcquireRelease(b *testing.B) {
	m := New()
	defer m.Close()
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		l, err := m.Acquire(ctx, lock, exclusive)
		if err != nil {
			b.Fatal(err)
		}
		_ = l.Release(ctx)
	}
}
