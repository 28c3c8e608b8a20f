//go:build linux || darwin

package socket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gocoord/coord/backend"
)

// Acquire implements backend.Backend.
func (b *Backend) Acquire(ctx context.Context, p backend.Place, c backend.Claim) (backend.Lease, error) {
	if s := b.server.Load(); s != nil {
		l, err := s.local.Acquire(ctx, p, c)
		return l, b.ofServer(err)
	}
	if err := backend.ContextError(ctx); err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	c.Data = bytes.Clone(c.Data)
	call, err := b.start(&request{op: opAcquire, place: p, claim: c})
	if err != nil {
		return nil, err
	}
	b.readFor(ctx, call)
	select {
	case a := <-call.done:
		return b.granted(ctx, a)
	case <-ctx.Done():
		b.giveBack(call)
		return nil, backend.ContextError(ctx)
	}
}

// granted makes the result of an answer. A ctx that has ended wins.
func (b *Backend) granted(ctx context.Context, a answer) (backend.Lease, error) {
	switch {
	case a.err != nil:
		return nil, a.err
	case a.lease == nil:
		return nil, a.reply.err()
	}
	if err := backend.ContextError(ctx); err != nil {
		_ = a.lease.end(nil)
		return nil, err
	}
	switch err := a.lease.Err(); {
	case errors.Is(err, backend.ErrReleased): // by Close
		return nil, backend.ErrClosed
	case err != nil:
		return nil, err
	}
	return a.lease, nil
}

// giveBack ends a claim that its owner does not want any more, whether it was
// granted by now or not.
func (b *Backend) giveBack(c *call) {
	b.mu.Lock()
	if b.calls[c.number] == c {
		delete(b.calls, c.number)
		if !b.closed {
			b.nudgeLocked(b.dropLocked(c.number))
		}
		b.mu.Unlock()
		return
	}
	b.mu.Unlock()
	if a := <-c.done; a.lease != nil {
		_ = a.lease.end(nil)
	}
}

// ofServer translates an error of this process's own engine. It closes when
// the client does, and when it can no longer serve.
func (b *Backend) ofServer(err error) error {
	if err == nil || !errors.Is(err, backend.ErrClosed) {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return backend.ErrClosed
	}
	return backend.Unavailable(b.at.path, errors.New("this process served, and could not go on"))
}

// A lease is an admitted claim that another process's engine has in line.
type lease struct {
	b     *Backend
	seq   uint64 // by which the servers know it
	token uint64
	done  chan struct{}

	// Guarded by b.mu.
	mode backend.Mode
	err  error
}

// ID implements backend.Lease. It is that of the engine.
func (l *lease) ID() string { return strconv.FormatUint(l.token, 36) }

// Token implements backend.Lease.
func (l *lease) Token() uint64 { return l.token }

// Deadline implements backend.Lease. There is none: a hold lasts until its
// owner dies, and the kernel says so.
func (l *lease) Deadline() (t time.Time, ok bool) { return t, false }

// Done implements backend.Lease.
func (l *lease) Done() <-chan struct{} { return l.done }

// Err implements backend.Lease.
func (l *lease) Err() error {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	return l.err
}

// endLocked ends the lease for its owner.
func (l *lease) endLocked(why error) {
	if l.err != nil {
		return
	}
	l.err = why
	delete(l.b.leases, l.seq)
	close(l.done)
}

// end releases the lease, and puts the call that tells the server into c.
func (l *lease) end(c **call) error {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	switch {
	case errors.Is(l.err, backend.ErrReleased):
		return nil
	case l.err != nil:
		return l.err
	}
	l.endLocked(backend.ErrReleased)
	drop := l.b.dropLocked(l.seq)
	if c == nil {
		l.b.nudgeLocked(drop)
		return nil
	}
	drop.detach = false
	*c = drop
	return nil
}

// Release implements backend.Lease.
func (l *lease) Release(ctx context.Context) error {
	var c *call
	if err := l.end(&c); err != nil || c == nil {
		return err
	}
	_, err := l.b.await(ctx, c)
	return err
}

// Downgrade implements backend.Lease.
func (l *lease) Downgrade(ctx context.Context) error {
	if err := backend.ContextError(ctx); err != nil {
		return err
	}
	l.b.mu.Lock()
	mode, err := l.mode, l.err
	l.b.mu.Unlock()
	switch {
	case err != nil:
		return err
	case mode == backend.Shared:
		return nil
	case mode != backend.Exclusive:
		return fmt.Errorf("%w: a claim that is %s cannot be downgraded", backend.ErrInvalid, mode)
	}
	if _, _, err := l.b.ask(ctx, &request{op: opDowngrade, seq: l.seq}); err != nil {
		return err
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.mode = backend.Shared
	return nil
}

// Withdraw implements backend.Lease.
func (l *lease) Withdraw(ctx context.Context, v backend.Version) error {
	if err := backend.ContextError(ctx); err != nil {
		return err
	}
	switch err := l.Err(); {
	case errors.Is(err, backend.ErrReleased):
		return nil
	case err != nil:
		return err
	}
	_, c, err := l.b.ask(ctx, &request{op: opWithdraw, seq: l.seq, ver: v})
	if err != nil {
		return c.perhaps(l.b.at, err)
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.endLocked(backend.ErrReleased)
	return nil
}
