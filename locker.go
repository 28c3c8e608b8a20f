package coord

import (
	"context"

	"github.com/gocoord/coord/backend"
)

// Locker returns the lock of this name.
func (c *Client) Locker(name string) Locker {
	return &locker{c.handle(backend.Mutex, name, nil)}
}

// RWLocker returns the lock of this name with a reader's side. It is the same
// lock as Locker(name).
func (c *Client) RWLocker(name string) RWLocker {
	return &rwLocker{locker{c.handle(backend.RWMutex, name, nil)}}
}

// RLocker returns the reader's side of l as a Locker, for With and All.
func RLocker(l RWLocker) Locker { return readers{l} }

type locker struct{ handle }

func (l *locker) Lock(ctx context.Context) (*Hold, error) {
	return l.acquire(ctx, "lock", backend.Claim{Mode: backend.Exclusive})
}

func (l *locker) TryLock(ctx context.Context) (*Hold, error) {
	return l.acquire(ctx, "try lock", backend.Claim{Mode: backend.Exclusive, NoWait: true})
}

type rwLocker struct{ locker }

func (l *rwLocker) RLock(ctx context.Context) (*Hold, error) {
	return l.acquire(ctx, "read lock", backend.Claim{Mode: backend.Shared})
}

func (l *rwLocker) TryRLock(ctx context.Context) (*Hold, error) {
	return l.acquire(ctx, "try read lock", backend.Claim{Mode: backend.Shared, NoWait: true})
}

type readers struct{ rw RWLocker }

func (r readers) Lock(ctx context.Context) (*Hold, error)    { return r.rw.RLock(ctx) }
func (r readers) TryLock(ctx context.Context) (*Hold, error) { return r.rw.TryRLock(ctx) }

// With locks l, runs f and releases. The ctx that f gets ends when the caller's
// does or when the hold does, so f stops working on what is no longer its own.
// With waits for f, also if the hold is lost meanwhile, and then reports the
// loss together with f's error.
func With(ctx context.Context, l Locker, f func(ctx context.Context, h *Hold) error) (err error) {
	h, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	inner, cancel := h.Context(ctx)
	defer func() {
		cancel()
		err = gather(err, h.Release())
	}()
	return f(inner, h)
}
