package coord_test

import (
	"context"
	"sync"
	"testing"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend/memory"
	"golang.org/x/sync/semaphore"
)

// The memory backend beside what a single process would use instead: one
// BenchmarkX/peer for each, in one run. `make bench` prints the ratios. None of
// the peers has names or tokens, and the mutexes cannot be cancelled.

func locks(b *testing.B, run func(b *testing.B, lock func())) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	c, err := coord.New(memory.New())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	hold := func(l coord.Locker) func() {
		return func() {
			h, err := l.Lock(ctx)
			if err != nil {
				b.Error(err)
				return
			}
			if err := h.Release(); err != nil {
				b.Error(err)
			}
		}
	}
	permits := c.Semaphore("permits", 1)
	weighted := semaphore.NewWeighted(1)
	var (
		mu sync.Mutex
		rw sync.RWMutex
	)
	for _, peer := range []struct {
		name string
		lock func()
	}{
		{"coord.Locker", hold(c.Locker("lock"))},
		{"coord.RWLocker-read", hold(coord.RLocker(c.RWLocker("rwlock")))},
		{"coord.RWLocker-write", hold(c.RWLocker("rwlock"))},
		{"coord.Semaphore", func() {
			h, err := permits.Acquire(ctx, 1)
			if err != nil {
				b.Error(err)
				return
			}
			_ = h.Release()
		}},
		{"semaphore.Weighted", func() {
			if err := weighted.Acquire(ctx, 1); err != nil {
				b.Error(err)
				return
			}
			weighted.Release(1)
		}},
		{"sync.Mutex", func() {
			mu.Lock()
			defer mu.Unlock()
		}},
		{"sync.RWMutex-read", func() {
			rw.RLock()
			defer rw.RUnlock()
		}},
		{"sync.RWMutex-write", func() {
			rw.Lock()
			defer rw.Unlock()
		}},
	} {
		b.Run(peer.name, func(b *testing.B) {
			b.ReportAllocs()
			run(b, peer.lock)
		})
	}
}

// BenchmarkUncontended is one Lock and one Unlock that nobody else wants.
func BenchmarkUncontended(b *testing.B) {
	locks(b, func(b *testing.B, lock func()) {
		for b.Loop() {
			lock()
		}
	})
}

// BenchmarkContended64 is one hand-over among 64 goroutines that all want the
// lock again at once.
func BenchmarkContended64(b *testing.B) {
	const contenders = 64
	locks(b, func(b *testing.B, lock func()) {
		var wg sync.WaitGroup
		for i := range contenders {
			wg.Go(func() {
				for range (b.N + i) / contenders {
					lock()
				}
			})
		}
		wg.Wait()
	})
}
