package coord_test

import (
	"context"
	"sync"
	"testing"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend/memory"
	"golang.org/x/sync/semaphore"
)

func BenchmarkUncontended(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.Run("coord.Locker", func(b *testing.B) {
		c, _ := coord.New(memory.New())
		defer c.Close()
		l := c.Locker("orders")
		b.ReportAllocs()
		for b.Loop() {
			h, err := l.Lock(ctx)
			if err != nil {
				b.Fatal(err)
			}
			h.Release()
		}
	})
	b.Run("semaphore.Weighted", func(b *testing.B) {
		s := semaphore.NewWeighted(1)
		b.ReportAllocs()
		for b.Loop() {
			if s.Acquire(ctx, 1) != nil {
				b.Fatal()
			}
			s.Release(1)
		}
	})
	b.Run("sync.Mutex", func(b *testing.B) {
		var mu sync.Mutex
		for b.Loop() {
			mu.Lock()
			mu.Unlock()
		}
	})
}

func BenchmarkHandover(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	run := func(b *testing.B, f func()) {
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for range b.N / 64 {
					f()
				}
			})
		}
		wg.Wait()
	}
	b.Run("coord.Locker", func(b *testing.B) {
		c, _ := coord.New(memory.New())
		defer c.Close()
		l := c.Locker("orders")
		b.ReportAllocs()
		run(b, func() {
			h, err := l.Lock(ctx)
			if err != nil {
				b.Error(err)
			}
			h.Release()
		})
	})
	b.Run("semaphore.Weighted", func(b *testing.B) {
		s := semaphore.NewWeighted(1)
		b.ReportAllocs()
		run(b, func() {
			_ = s.Acquire(ctx, 1)
			s.Release(1)
		})
	})
}
