package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gocoord/coord/backend"
)

// Chaos returns a client that works as b does on a bad day, and that keeps the
// contract all the same: calls are delayed; Store, Withdraw and Release answer
// ErrUnavailable, before they have taken effect or after; Acquire, Observe,
// Gone and Load answer ErrUnavailable, and an Acquire that fails leaves
// nothing. One call in ten is hit. The seed decides which; the order in which
// goroutines run has its say, too.
//
// It is for testing what stands on a backend.
func Chaos(b backend.Backend, seed uint64) backend.Backend {
	return newChaos(b, seed, mood{read: 0.1, change: 0.1, acquire: 0.1})
}

// A mood is how probable it is that a call fails.
type mood struct{ read, change, acquire float64 }

func newChaos(b backend.Backend, seed uint64, m mood) *chaos {
	return &chaos{Backend: b, mood: m, random: rand.New(rand.NewPCG(seed, 0))}
}

type chaos struct {
	backend.Backend
	mood mood

	mu     sync.Mutex
	random *rand.Rand
}

// Unwrap makes a backend.Wrapper of it.
func (c *chaos) Unwrap() backend.Backend { return c.Backend }

// Info says at least Host: calls take time here, as they do with a service
// that is another process, and whoever uses a Backend may go by its scope.
func (c *chaos) Info() backend.Info {
	info := c.Backend.Info()
	info.Scope = max(info.Scope, backend.Host)
	return info
}

// A fate is what becomes of a call.
type fate uint8

const (
	works fate = iota
	failsBefore
	failsAfter
)

var errChaos = errors.New("chaos")

func (c *chaos) fails() error { return backend.Unavailable(c.Info().Name, errChaos) }

// fate draws what becomes of a call, and delays it, or half of those.
func (c *chaos) fate(ctx context.Context, chance float64) (fate, error) {
	c.mu.Lock()
	delay := time.Duration(0)
	if c.random.IntN(2) == 0 {
		delay = time.Duration(c.random.IntN(200)) * time.Microsecond
	}
	f := works
	if c.random.Float64() < chance {
		f = failsBefore + fate(c.random.IntN(2))
	}
	c.mu.Unlock()
	if delay == 0 {
		return f, nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return f, nil
	case <-ctx.Done():
		return f, backend.ContextError(ctx)
	}
}

// change makes a change that may have been made when it fails.
func (c *chaos) change(ctx context.Context, f func() error) error {
	fate, err := c.fate(ctx, c.mood.change)
	if err != nil {
		return err
	}
	if fate == failsBefore {
		return c.fails()
	}
	if err := f(); err != nil || fate == works {
		return err
	}
	return c.fails()
}

// read asks, or fails.
func (c *chaos) read(ctx context.Context, f func() error) error {
	fate, err := c.fate(ctx, c.mood.read)
	if err != nil {
		return err
	}
	if fate != works {
		return c.fails()
	}
	return f()
}

func (c *chaos) Acquire(ctx context.Context, p backend.Place, claim backend.Claim) (backend.Lease, error) {
	fate, err := c.fate(ctx, c.mood.acquire)
	if err != nil {
		return nil, err
	}
	if fate == failsBefore {
		return nil, c.fails()
	}
	l, err := c.Backend.Acquire(ctx, p, claim)
	if err != nil {
		return nil, err
	}
	if fate == failsAfter {
		err = c.fails()
	} else {
		// The answer takes its time; ctx may end on the way.
		_, err = c.fate(ctx, 0)
	}
	if err != nil {
		_ = l.Release(context.WithoutCancel(ctx))
		return nil, err
	}
	return &chaosLease{Lease: l, c: c}, nil
}

func (c *chaos) Observe(ctx context.Context, p backend.Place, since backend.Version) (out backend.Roster, err error) {
	err = c.read(ctx, func() (err error) { out, err = c.Backend.Observe(ctx, p, since); return err })
	return out, err
}

func (c *chaos) Gone(ctx context.Context, p backend.Place, id string) error {
	return c.read(ctx, func() error { return c.Backend.Gone(ctx, p, id) })
}

func (c *chaos) Load(ctx context.Context, p backend.Place, since backend.Version) (out backend.Value, err error) {
	err = c.read(ctx, func() (err error) { out, err = c.Backend.Load(ctx, p, since); return err })
	return out, err
}

func (c *chaos) Store(ctx context.Context, p backend.Place, data []byte, prev backend.Version, alive ...string) (v backend.Version, err error) {
	err = c.change(ctx, func() (err error) { v, err = c.Backend.Store(ctx, p, data, prev, alive...); return err })
	if err != nil {
		v = ""
	}
	return v, err
}

// A chaosLease is a lease whose Release may get no answer.
type chaosLease struct {
	backend.Lease
	c *chaos
}

func (l *chaosLease) Downgrade(ctx context.Context) error {
	if _, err := l.c.fate(ctx, 0); err != nil {
		return err
	}
	return l.Lease.Downgrade(ctx)
}

func (l *chaosLease) Withdraw(ctx context.Context, v backend.Version) error {
	return l.c.change(ctx, func() error { return l.Lease.Withdraw(ctx, v) })
}

// Release ends the lease for its owner whatever it answers, so the entry goes
// when it fails, too.
func (l *chaosLease) Release(ctx context.Context) error {
	select {
	case <-l.Lease.Done(): // a second Release has nothing to ask
		return l.Lease.Release(ctx)
	default:
	}
	fate, err := l.c.fate(ctx, l.c.mood.change)
	if err == nil && fate == works {
		return l.Lease.Release(ctx)
	}
	if err == nil {
		err = fmt.Errorf("perhaps released: %w", l.c.fails())
	}
	if lost := l.Lease.Release(context.WithoutCancel(ctx)); lost != nil {
		return lost
	}
	return err
}
