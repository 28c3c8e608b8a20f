package conformance

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"testing"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
)

// Bench measures a backend, as sub-benchmarks of b. What it needs of h is Open
// and Expect; time is real. The numbers of two drivers can be compared, since
// both do the same.
func Bench(b *testing.B, h Harness) {
	h = h.withDefaults()
	run := func(k backend.Kind, name string, f func(*stand)) {
		b.Run(name, func(b *testing.B) {
			if !h.Expect.Supports(k) {
				b.Skip(kind(k)(h))
			}
			f(&stand{b, h, "bench/" + name + "/" + rand.Text()[:8]})
		})
	}
	run(backend.Mutex, "Lock", benchLock)
	run(backend.RWMutex, "RLock", benchRLock)
	run(backend.Semaphore, "Semaphore", benchSemaphore)
	for _, n := range []int{2, 8, 64} {
		run(backend.Mutex, fmt.Sprintf("HandOver-%d", n), func(s *stand) { benchHandOver(s, n) })
	}
	for _, n := range []int{2, 8, 32} {
		run(backend.Barrier, fmt.Sprintf("Barrier-%d", n), func(s *stand) { benchBarrier(s, n) })
	}
	run(backend.Mutex, "Observe-1000", benchObserve)
	run(backend.Latch, "Register", benchRegister)
}

// A stand is where a benchmark runs.
type stand struct {
	*testing.B
	h    Harness
	name string
}

func (s *stand) open() *coord.Client {
	c, err := coord.New(s.h.Open(s.B))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = c.Close() })
	return c
}

func (s *stand) ok(err error) {
	if err != nil {
		s.Fatal(err)
	}
}

// cycle locks and releases, uncontended.
func (s *stand) cycle(lock func(context.Context) (*coord.Hold, error)) {
	ctx := context.Background()
	s.ReportAllocs()
	for s.Loop() {
		hold, err := lock(ctx)
		s.ok(err)
		s.ok(hold.Release())
	}
}

func benchLock(s *stand) { s.cycle(s.open().Locker(s.name).Lock) }

func benchRLock(s *stand) { s.cycle(s.open().RWLocker(s.name).RLock) }

func benchSemaphore(s *stand) {
	sem := s.open().Semaphore(s.name, 8)
	s.cycle(func(ctx context.Context) (*coord.Hold, error) { return sem.Acquire(ctx, 2) })
}

// benchHandOver has n clients that want the lock all the time. One operation
// is one hand-over.
func benchHandOver(s *stand, n int) {
	clients := make([]coord.Locker, n)
	for i := range clients {
		clients[i] = s.open().Locker(s.name)
	}
	s.together(n, func(i int) error {
		hold, err := clients[i].Lock(context.Background())
		if err != nil {
			return err
		}
		return hold.Release()
	})
	s.ReportMetric(float64(s.N)/s.Elapsed().Seconds(), "handovers/s")
}

// together runs b.N steps on n goroutines.
func (s *stand) together(n int, step func(i int) error) {
	s.ResetTimer()
	var wg sync.WaitGroup
	for i := range n {
		steps := s.N / n
		if i < s.N%n {
			steps++
		}
		wg.Go(func() {
			for range steps {
				if err := step(i); err != nil {
					s.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	s.StopTimer()
}

// benchBarrier has n parties that enter and leave. One operation is one round.
func benchBarrier(s *stand, n int) {
	parties := make([]coord.Barrier, n)
	for i := range parties {
		parties[i] = s.open().Barrier(s.name, n)
	}
	s.ResetTimer()
	var wg sync.WaitGroup
	for _, p := range parties {
		wg.Go(func() {
			for range s.N {
				round, err := p.Enter(context.Background())
				if err == nil {
					err = round.Leave(context.Background())
				}
				if err != nil {
					s.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	s.ReportMetric(float64(s.N)/s.Elapsed().Seconds(), "rounds/s")
}

// benchObserve looks at a line of a thousand.
func benchObserve(s *stand) {
	const waiting = 1000
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	s.Cleanup(wg.Wait)
	s.Cleanup(cancel)
	c := s.open()
	for range waiting {
		wg.Go(func() { _, _ = c.Locker(s.name).Lock(ctx) })
	}
	for line := []backend.Entry(nil); len(line) < waiting; {
		var err error
		line, err = c.Inspect(ctx, backend.Mutex, s.name)
		s.ok(err)
	}
	for s.Loop() {
		_, err := c.Inspect(ctx, backend.Mutex, s.name)
		s.ok(err)
	}
}

// benchRegister loads and stores.
func benchRegister(s *stand) {
	b := s.h.Open(s.B)
	s.Cleanup(func() { _ = b.Close() })
	ctx, p := context.Background(), backend.Place{Kind: backend.Latch, Name: s.name}
	data := make([]byte, 100)
	for s.Loop() {
		v, err := b.Load(ctx, p, "")
		s.ok(err)
		_, err = b.Store(ctx, p, data, v.Version)
		s.ok(err)
	}
	v, err := b.Load(ctx, p, "")
	s.ok(err)
	_, err = b.Store(ctx, p, nil, v.Version)
	s.ok(err)
}
