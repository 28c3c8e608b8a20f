package coord

import (
	"context"
	"fmt"

	"github.com/gocoord/coord/backend"
)

// A Semaphore has a number of permits, of which each hold takes some. Permits
// are given out strictly in order of arrival, so that a claim for many is not
// starved by those for few.
type Semaphore struct {
	handle
	limit int64
}

// Semaphore returns the semaphore of this name with limit permits. All clients
// must give the same limit; a claim that meets others with another one fails
// with ErrMismatch.
func (c *Client) Semaphore(name string, limit int64) *Semaphore {
	var err error
	if limit < 1 {
		err = fmt.Errorf("%w: a limit of %d permits, want at least 1", ErrInvalid, limit)
	}
	return &Semaphore{c.handle(backend.Semaphore, name, err), limit}
}

// Acquire waits until n permits are held or ctx ends.
func (s *Semaphore) Acquire(ctx context.Context, n int64) (*Hold, error) {
	return s.take(ctx, "acquire", n, false)
}

// TryAcquire answers ErrBusy where Acquire would have to wait for others.
func (s *Semaphore) TryAcquire(ctx context.Context, n int64) (*Hold, error) {
	return s.take(ctx, "try acquire", n, true)
}

func (s *Semaphore) take(ctx context.Context, op string, n int64, noWait bool) (*Hold, error) {
	claim := backend.Claim{Mode: backend.Permit, Weight: n, Limit: s.limit, NoWait: noWait}
	if err := claim.Check(); err != nil && s.err == nil {
		return nil, s.fail(op, err)
	}
	return s.acquire(ctx, op, claim)
}
