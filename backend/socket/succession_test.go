//go:build linux || darwin

package socket

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gocoord/coord/backend"
)

var rounds = 1000

// TestThousandSuccessions crashes one server after another inside this process
// while eight clients contend, some readers and some writers, and one keeps a
// hold through all of it.
func TestThousandSuccessions(t *testing.T) {
	n := rounds
	if testing.Short() {
		n /= 10
	}
	c := &contest{t: t, path: socketPath(t), clients: make(map[*Backend]chan struct{})}
	for range 8 {
		c.enter()
	}
	var slowest time.Duration
	last := int64(0)
	for i := range n {
		s := c.server()
		began := time.Now()
		c.leave(s, i%4 == 3)
		c.enter()
		// Somebody must get further under each server.
		for c.grants.Load() <= last {
			time.Sleep(50 * time.Microsecond)
			if time.Since(began) > 20*time.Second {
				t.Fatalf("nobody was admitted after succession %d", i)
			}
		}
		slowest = max(slowest, time.Since(began))
		last = c.grants.Load()
	}
	for b := range c.clients {
		c.leave(b, true)
	}
	t.Logf("%d successions, %d grants, the slowest succession took %v", n, c.grants.Load(), slowest)
	// A crashed server's goroutines may still have asked about the dead while
	// its successor did, so that it took one for alive. The next one sweeps.
	if b, err := Open(t.Context(), c.path); err != nil {
		t.Error(err)
	} else if err := b.Close(); err != nil {
		t.Error(err)
	}
	empty(t, c.path)
}

// A contest is clients that lock and unlock one name, and look whether the
// others keep out.
type contest struct {
	t    *testing.T
	path string

	mu      sync.Mutex
	clients map[*Backend]chan struct{} // closed when its loop has ended
	inside  map[*Backend]bool          // whether it writes
	last    uint64                     // token of a writer
	grants  atomic.Int64
}

func (c *contest) enter() {
	b, err := Open(c.t.Context(), c.path)
	if err != nil {
		c.t.Fatal(err)
	}
	ended := make(chan struct{})
	c.mu.Lock()
	c.clients[b] = ended
	n := len(c.clients)
	c.mu.Unlock()
	go func() {
		defer close(ended)
		for c.round(b, n%3 != 0) {
		}
	}()
}

// round reports whether the client goes on.
func (c *contest) round(b *Backend, write bool) bool {
	claim := shared
	if write {
		claim = exclusive
	}
	l, err := b.Acquire(context.Background(), mutex("a"), claim)
	if err != nil {
		if !c.left(b) {
			c.t.Errorf("Acquire: %v", err)
		}
		return false
	}
	if !c.inOut(b, l, write) {
		return false
	}
	if err := l.Release(context.Background()); err != nil && !c.left(b) {
		c.t.Errorf("Release: %v", err)
	}
	return !c.left(b)
}

// inOut notes that b is inside, and that it is out again.
func (c *contest) inOut(b *Backend, l backend.Lease, write bool) bool {
	c.mu.Lock()
	if _, here := c.clients[b]; !here {
		c.mu.Unlock()
		return false
	}
	if c.inside == nil {
		c.inside = make(map[*Backend]bool)
	}
	for _, writes := range c.inside {
		if writes || write {
			c.t.Errorf("two inside, and one of them writes: token %d", l.Token())
		}
	}
	if write {
		if l.Token() <= c.last {
			c.t.Errorf("token %d after %d", l.Token(), c.last)
		}
		c.last = l.Token()
	}
	c.inside[b] = write
	c.mu.Unlock()
	c.grants.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := l.Err(); err != nil && !errors.Is(err, backend.ErrReleased) {
		c.t.Errorf("lost: %v", err)
	}
	delete(c.inside, b)
	return true
}

func (c *contest) left(b *Backend) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, here := c.clients[b]
	return !here
}

// leave ends a client: in order, or as the kernel would. It counts as outside
// from before.
func (c *contest) leave(b *Backend, inOrder bool) {
	c.mu.Lock()
	ended := c.clients[b]
	delete(c.clients, b)
	delete(c.inside, b)
	c.mu.Unlock()
	if inOrder {
		if err := b.Close(); err != nil {
			c.t.Errorf("Close: %v", err)
		}
	} else {
		b.crash()
		b.fail()
	}
	<-ended
}

// server waits until one of the clients serves.
func (c *contest) server() *Backend {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Microsecond) {
		c.mu.Lock()
		for b := range c.clients {
			if b.server.Load() != nil {
				c.mu.Unlock()
				return b
			}
		}
		c.mu.Unlock()
	}
	c.t.Fatal("nobody serves")
	return nil
}
