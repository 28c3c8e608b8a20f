// Package fence is the resource's side of a fencing token.
//
// A lock service cannot stop a process that was paused, or cut off, for longer
// than its session lives: it may wake up and write when another holds the lock
// already. What can stop it is the resource, if every write carries the token
// of its hold: tokens grow from holder to holder, so a write with an older token
// than the newest one seen comes too late. The idea is described by Martin
// Kleppmann in "How to do distributed locking" (2016), and as sequencers in
// Burrows, "The Chubby lock service" (OSDI 2006).
package fence

import (
	"errors"
	"fmt"
	"sync"
)

// ErrStale says that a newer holder has been here. Whoever gets it no longer
// holds the lock, whatever it believes.
var ErrStale = errors.New("stale fencing token")

// A Gate guards one resource. The zero Gate has seen no token yet. It may be
// used by several goroutines at once.
type Gate struct {
	mu     sync.Mutex
	newest uint64
}

// New returns a gate that has seen tokens up to newest, for a resource that
// keeps the number with its data over restarts.
func New(newest uint64) *Gate { return &Gate{newest: newest} }

// Admit answers ErrStale for a token older than the newest one seen, and
// remembers the token otherwise. A holder may come as often as it likes. The
// verdict is about this moment: where a write could be overtaken after it, use
// Do.
func (g *Gate) Admit(token uint64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.admit(token)
}

func (g *Gate) admit(token uint64) error {
	if token == 0 {
		return fmt.Errorf("%w: 0 is the token of no hold", ErrStale)
	}
	if token < g.newest {
		return fmt.Errorf("%w: %d, and %d has been here", ErrStale, token, g.newest)
	}
	g.newest = token
	return nil
}

// Do admits the token and runs write, in one step: no other Admit or Do of the
// gate happens in between.
func (g *Gate) Do(token uint64, write func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.admit(token); err != nil {
		return err
	}
	return write()
}

// Newest returns the newest token seen, or 0.
func (g *Gate) Newest() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.newest
}
