package etcd_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/testenv"
)

// BenchmarkBarrier is one round of a double barrier, entered and left, by
// parties with a client of their own.
func BenchmarkBarrier(b *testing.B) {
	nodes(b, func(b *testing.B, c *testenv.Cluster) {
		for _, n := range []int{2, 8, 32} {
			b.Run(fmt.Sprintf("parties=%d/coord", n), func(b *testing.B) {
				name := newPlace(backend.Barrier).Name
				rounds(b, c, n, func() func(context.Context) error {
					barrier := client(b, c).Barrier(name, n)
					return func(ctx context.Context) error {
						round, err := barrier.Enter(ctx)
						if err != nil {
							return err
						}
						return round.Leave(ctx)
					}
				})
			})
			b.Run(fmt.Sprintf("parties=%d/recipe", n), func(b *testing.B) {
				name := newPlace(backend.Barrier).Name
				rounds(b, c, n, func() func(context.Context) error {
					barrier := recipe.NewDoubleBarrier(session(b, raw(b, c)), "/recipe/"+name, n)
					return func(context.Context) error {
						if err := barrier.Enter(); err != nil {
							return err
						}
						return barrier.Leave()
					}
				})
			})
		}
	})
}

func client(b *testing.B, c *testenv.Cluster) *coord.Client {
	open, err := coord.Open(b.Context(), "etcd://"+strings.Join(c.Endpoints(), ",")+"/bench")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = open.Close() })
	return open
}

// rounds runs b.N rounds. They begin together: the recipe cannot take parties
// that enter again while others are still leaving.
func rounds(b *testing.B, c *testenv.Cluster, n int, party func() func(context.Context) error) {
	parties := make([]func(context.Context) error, n)
	for i := range parties {
		parties[i] = party()
	}
	requests := c.RequestsDuring(b, func() {
		for b.Loop() {
			var wg sync.WaitGroup
			for _, through := range parties {
				wg.Go(func() {
					if err := through(b.Context()); err != nil {
						b.Error(err)
					}
				})
			}
			wg.Wait()
		}
	})
	report(b, requests, n)
}

// report tells how many requests of each kind one party made in one round.
func report(b *testing.B, requests map[string]int, parties int) {
	for method, n := range requests {
		b.ReportMetric(float64(n)/float64(b.N*parties), method+"/op")
	}
}

// BenchmarkRequests counts what one uncontended lock and release ask of etcd.
func BenchmarkRequests(b *testing.B) {
	c := testenv.SharedEtcd(b)
	for _, who := range []string{"coord", "concurrency"} {
		b.Run(who, func(b *testing.B) {
			lock := theirs(b, c, newPlace(backend.Mutex))
			if who == "coord" {
				lock = ours(b, c, newPlace(backend.Mutex), exclusive)
			}
			requests := c.RequestsDuring(b, func() {
				for b.Loop() {
					if err := lock(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			})
			report(b, requests, 1)
		})
	}
}
