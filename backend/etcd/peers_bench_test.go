package etcd_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/testenv"
)

// A locker takes a lock and gives it back.
type locker func(ctx context.Context) error

// nodes runs f against clusters of one and three nodes.
func nodes(b *testing.B, f func(b *testing.B, c *testenv.Cluster)) {
	for _, n := range []int{1, 3} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			opts := []testenv.Option{testenv.Nodes(n)}
			if n > 1 {
				opts = append(opts, testenv.Fsync())
			}
			f(b, testenv.SharedEtcd(b, opts...))
		})
	}
}

func ours(b *testing.B, c *testenv.Cluster, p backend.Place, claim backend.Claim) locker {
	client := open(b, strings.Join(c.Endpoints(), ","), "")
	return func(ctx context.Context) error {
		l, err := client.Acquire(ctx, p, claim)
		if err != nil {
			return err
		}
		return l.Release(ctx)
	}
}

func session(b *testing.B, client *clientv3.Client) *concurrency.Session {
	s, err := concurrency.NewSession(client)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func theirs(b *testing.B, c *testenv.Cluster, p backend.Place) locker {
	m := concurrency.NewMutex(session(b, raw(b, c)), "/test/locks/"+p.Name)
	return func(ctx context.Context) error {
		if err := m.Lock(ctx); err != nil {
			return err
		}
		return m.Unlock(ctx)
	}
}

// contend has all lockers ask for the lock over and over, for b.N grants.
func contend(b *testing.B, lockers []locker) {
	ctx := context.Background()
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	start := time.Now()
	var wg sync.WaitGroup
	for _, l := range lockers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := l(ctx); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "grants/s")
}

func BenchmarkLock(b *testing.B) {
	nodes(b, func(b *testing.B, c *testenv.Cluster) {
		for _, n := range []int{1, 2, 8, 64} {
			for _, who := range []string{"coord", "concurrency"} {
				b.Run(fmt.Sprintf("contenders=%d/%s", n, who), func(b *testing.B) {
					p := newPlace(backend.Mutex)
					lockers := make([]locker, n)
					for i := range lockers {
						if who == "coord" {
							lockers[i] = ours(b, c, p, exclusive)
						} else {
							lockers[i] = theirs(b, c, p)
						}
					}
					contend(b, lockers)
				})
			}
		}
	})
}

// One client, many goroutines.
func BenchmarkLockOneClient(b *testing.B) {
	nodes(b, func(b *testing.B, c *testenv.Cluster) {
		b.Run("contenders=64/coord", func(b *testing.B) {
			l := ours(b, c, newPlace(backend.Mutex), exclusive)
			lockers := make([]locker, 64)
			for i := range lockers {
				lockers[i] = l
			}
			contend(b, lockers)
		})
		b.Run("contenders=64/concurrency", func(b *testing.B) {
			client, p := raw(b, c), newPlace(backend.Mutex)
			lockers := make([]locker, 64)
			for i := range lockers {
				m := concurrency.NewMutex(session(b, client), "/test/locks/"+p.Name)
				lockers[i] = func(ctx context.Context) error {
					if err := m.Lock(ctx); err != nil {
						return err
					}
					return m.Unlock(ctx)
				}
			}
			contend(b, lockers)
		})
	})
}

// Seven readers and a writer.
func BenchmarkReadersAndWriter(b *testing.B) {
	nodes(b, func(b *testing.B, c *testenv.Cluster) {
		b.Run("coord", func(b *testing.B) {
			p := newPlace(backend.RWMutex)
			lockers := []locker{ours(b, c, p, exclusive)}
			for range 7 {
				lockers = append(lockers, ours(b, c, p, shared))
			}
			contend(b, lockers)
		})
		b.Run("recipe", func(b *testing.B) {
			p := newPlace(backend.RWMutex)
			var lockers []locker
			for i := range 8 {
				m := recipe.NewRWMutex(session(b, raw(b, c)), "/recipe/"+p.Name)
				lockers = append(lockers, func(context.Context) error {
					if i == 0 {
						if err := m.Lock(); err != nil {
							return err
						}
						return m.Unlock()
					}
					if err := m.RLock(); err != nil {
						return err
					}
					return m.RUnlock()
				})
			}
			contend(b, lockers)
		})
	})
}

// The two take turns, so that what else the machine does hits both.
func BenchmarkUncontendedInTurns(b *testing.B) {
	nodes(b, func(b *testing.B, c *testenv.Cluster) {
		p, q := newPlace(backend.Mutex), newPlace(backend.Mutex)
		lockers := []locker{ours(b, c, p, exclusive), theirs(b, c, q)}
		times := make([][]time.Duration, len(lockers))
		b.ResetTimer()
		for range b.N {
			for i, l := range lockers {
				start := time.Now()
				if err := l(context.Background()); err != nil {
					b.Fatal(err)
				}
				times[i] = append(times[i], time.Since(start))
			}
		}
		for i, name := range []string{"coord-µs", "concurrency-µs"} {
			slices.Sort(times[i])
			b.ReportMetric(float64(times[i][len(times[i])/2].Microseconds()), name)
		}
	})
}
