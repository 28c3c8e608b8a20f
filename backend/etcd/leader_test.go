package etcd_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/testenv"
)

func TestLeaderKilled(t *testing.T) {
	c := testenv.Etcd(t, testenv.Nodes(3))
	b, other := open(t, hosts(c), "?ttl=15s"), open(t, hosts(c), "?ttl=15s")
	p := newPlace(backend.Mutex)
	hold := acquire(t, b, p, exclusive)
	w := goAcquire(t, other, p, exclusive)
	roster(t, other, p, 2)
	leader := c.Leader()
	c.Kill(leader)
	c.Leader()
	if err := hold.Err(); err != nil {
		t.Fatal(err)
	}
	w.Waiting(100 * time.Millisecond)
	release(t, hold)
	hold = w.Must()
	c.Restart(leader)
	// A member that hangs.
	w = goAcquire(t, b, p, exclusive)
	roster(t, b, p, 2)
	c.Stop(c.Leader())
	start := time.Now()
	release(t, hold)
	hold = w.Must()
	t.Logf("handed over in %v with the leader stopped", time.Since(start))
	release(t, hold)
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

// While the leader changes, requests are dropped, with an error that says so or
// none: claims are asked for again, and removals carried through.
func TestLeaderMoves(t *testing.T) {
	c := testenv.Etcd(t, testenv.Nodes(3))
	b := open(t, hosts(c), "")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var moved atomic.Bool
	var calls atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for !moved.Load() {
				l, err := b.Acquire(ctx, newPlace(backend.Mutex), exclusive)
				if err != nil {
					t.Errorf("Acquire: %v", err)
					return
				}
				if err := l.Release(ctx); err != nil {
					t.Errorf("Release: %v", err)
					return
				}
				calls.Add(2)
			}
		})
	}
	for i := range 8 {
		c.MoveLeader(i % c.Size())
	}
	moved.Store(true)
	wg.Wait()
	t.Logf("%d calls", calls.Load())
	if left, err := b.Places(ctx); err != nil || len(left) > 0 {
		t.Errorf("%d places are in use, error %v; want none: %v", len(left), err, left)
	}
}
