package memory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gocoord/coord/backend"
)

var lock = backend.Place{Kind: backend.RWMutex, Name: "x"}

// roster lists the line of p and holds it against the rule.
func roster(t *testing.T, b *Backend, p backend.Place) []backend.Entry {
	t.Helper()
	r, err := b.Observe(t.Context(), p, "")
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(r.Entries)
	backend.Admit(want)
	for i, e := range r.Entries {
		if e.Admitted != want[i].Admitted {
			t.Fatalf("entry %d is admitted %t, and the rule says %t, in %+v", i, e.Admitted, want[i].Admitted, r.Entries)
		}
	}
	return r.Entries
}

// TestLineFollowsRule makes random changes to a line and compares it with the
// rule after each.
func TestLineFollowsRule(t *testing.T) {
	claims := []backend.Claim{
		{Mode: backend.Exclusive}, {Mode: backend.Shared}, {Mode: backend.Presence},
		{Mode: backend.Permit, Weight: 1, Limit: 4}, {Mode: backend.Permit, Weight: 3, Limit: 4},
	}
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		b := New()
		var line []*lease
		for range 80 {
			switch n := rng.IntN(10); {
			case n < 5 || len(line) == 0:
				l, err := b.enqueue(lock, claims[rng.IntN(len(claims))], nil)
				if err != nil {
					t.Fatal(err)
				}
				line = append(line, l)
			case n == 5 && line[0].claim.Mode == backend.Exclusive:
				if err := line[0].Downgrade(t.Context()); err != nil {
					t.Fatal(err)
				}
			default:
				i := rng.IntN(len(line))
				if err := line[i].Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				line = slices.Delete(line, i, i+1)
			}
			entries := roster(t, b, lock)
			if len(entries) != len(line) {
				t.Fatalf("seed %d: %d in line, want %d", seed, len(entries), len(line))
			}
			for i, e := range entries {
				if e.Token != line[i].token {
					t.Fatalf("seed %d: entry %d has token %d, want %d", seed, i, e.Token, line[i].token)
				}
				if l := line[i]; e.Admitted && l.ready != nil {
					select {
					case <-l.ready:
					default:
						t.Fatalf("seed %d: entry %d was admitted and not woken", seed, i)
					}
				}
			}
		}
	}
}

// TestLongQueueDrains passes a lock through 100,000 waiters, each of which
// releases it from within its own wake-up.
func TestLongQueueDrains(t *testing.T) {
	const n = 100_000
	b := New()
	defer b.Close()
	ctx := t.Context()
	first, err := b.Acquire(ctx, lock, backend.Claim{Mode: backend.Exclusive})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan uint64, n)
	for range n {
		l, err := b.enqueue(lock, backend.Claim{Mode: backend.Exclusive}, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			<-l.ready
			_ = l.Release(ctx)
			done <- l.token
		}()
	}
	start := time.Now()
	if err := first.Release(ctx); err != nil {
		t.Fatal(err)
	}
	for range n {
		<-done
	}
	t.Logf("%d hand-overs in %v", n, time.Since(start))
}

// TestCancelledWaitersCostLittle cancels 100,000 waiters from the front, the
// back and the middle.
func TestCancelledWaitersCostLittle(t *testing.T) {
	const n = 100_000
	b := New()
	defer b.Close()
	var line []*lease
	for i := range n {
		mode := backend.Exclusive
		if i%3 == 0 {
			mode = backend.Shared
		}
		l, err := b.enqueue(lock, backend.Claim{Mode: mode}, nil)
		if err != nil {
			t.Fatal(err)
		}
		line = append(line, l)
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(n, func(i, j int) { line[i], line[j] = line[j], line[i] })
	for _, l := range line {
		if err := l.remove(backend.ErrReleased); err != nil {
			t.Fatal(err)
		}
	}
	if entries := roster(t, b, lock); len(entries) != 0 {
		t.Fatalf("%d are left in line", len(entries))
	}
}

// TestWakesExactly counts the goroutines that a release wakes.
func TestWakesExactly(t *testing.T) {
	b := New()
	defer b.Close()
	claim := func(mode backend.Mode) *lease {
		l, err := b.enqueue(lock, backend.Claim{Mode: mode}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	writer := claim(backend.Exclusive)
	readers := []*lease{claim(backend.Shared), claim(backend.Shared)}
	next := claim(backend.Exclusive)
	late := claim(backend.Shared)
	woken := func() (n int) {
		for _, l := range append(readers, next, late) {
			select {
			case <-l.ready:
				n++
			default:
			}
		}
		return n
	}
	for _, step := range []struct {
		release *lease
		want    int
	}{{writer, 2}, {readers[0], 2}, {readers[1], 3}, {next, 4}} {
		if err := step.release.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := woken(); got != step.want {
			t.Errorf("%d are awake, want %d", got, step.want)
		}
	}
}

// TestIdleLinesAreFew uses many names and looks at what is kept of them.
func TestIdleLinesAreFew(t *testing.T) {
	b := New()
	defer b.Close()
	for i := range 10_000 {
		l, err := b.Acquire(t.Context(), backend.Place{Kind: backend.Mutex, Name: fmt.Sprint(i)}, backend.Claim{Mode: backend.Exclusive})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for i := range b.space.shards {
		n += len(b.space.shards[i].lines)
	}
	if n > shardCount*idleLines {
		t.Errorf("%d lines are kept for names that nobody uses, want at most %d", n, shardCount*idleLines)
	}
}

func TestTokensGrowOverSpaces(t *testing.T) {
	acquire := func() uint64 {
		b := New()
		defer b.Close()
		l, err := b.Acquire(t.Context(), lock, backend.Claim{Mode: backend.Exclusive})
		if err != nil {
			t.Fatal(err)
		}
		return l.Token()
	}
	first := acquire()
	time.Sleep(2 * time.Millisecond) // the clock is what makes them grow
	if second := acquire(); second <= first {
		t.Errorf("a new space gave token %d after %d", second, first)
	}
}

func TestMismatchedLimit(t *testing.T) {
	b := New()
	defer b.Close()
	p := backend.Place{Kind: backend.Semaphore, Name: "s"}
	l, err := b.Acquire(t.Context(), p, backend.Claim{Mode: backend.Permit, Weight: 1, Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	other := backend.Claim{Mode: backend.Permit, Weight: 1, Limit: 3}
	if _, err := b.Acquire(t.Context(), p, other); !errors.Is(err, backend.ErrMismatch) {
		t.Errorf("another limit: %v, want ErrMismatch", err)
	}
	if err := l.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Acquire(t.Context(), p, other); err != nil {
		t.Errorf("another limit, alone: %v, want nil", err)
	}
}
