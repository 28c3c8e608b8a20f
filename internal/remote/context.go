// Package remote has what drivers for services across a network share: how a
// client's contexts end, reads that several callers want at the same time, the
// records of entries, and the common parts of their URLs.
package remote

import (
	"context"
	"errors"
	"time"

	"github.com/gocoord/coord/backend"
)

// Between two attempts of a request, clients wait for so long.
const (
	ShortestPause = 20 * time.Millisecond
	LongestPause  = 500 * time.Millisecond
)

// ended marks, as the cause of a cancelled context, that the client or its
// session ended it, and not the caller.
type ended struct{ error }

func (e ended) Unwrap() error { return e.error }

// Ended is the cause to cancel a client's context with, so that [Why] answers
// err.
func Ended(err error) error { return ended{err} }

// Why says why ctx has ended: in the caller's terms, or in the client's where
// that was the reason. It is nil while ctx has not ended.
func Why(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	if e, ok := context.Cause(ctx).(ended); ok { //nolint:errorlint // a cause of the caller's may wrap ours
		return e.error
	}
	return backend.ContextError(ctx)
}

// Closing turns the end of a session into the error of a call in progress.
func Closing(err error) error {
	if errors.Is(err, backend.ErrReleased) {
		return backend.ErrClosed
	}
	return err
}

// Begin starts a call about a place, in the life of a client.
func Begin(ctx, life context.Context, p backend.Place) (context.Context, context.CancelFunc, error) {
	if err := p.Check(); err != nil {
		return nil, nil, err
	}
	if err := Why(life); err != nil {
		return nil, nil, err
	}
	if err := Why(ctx); err != nil {
		return nil, nil, err
	}
	joined, stop := Join(ctx, life)
	return joined, stop, nil
}

// Join derives a context that also ends when owner does: that of a client or of
// a session.
func Join(ctx, owner context.Context) (context.Context, context.CancelFunc) {
	if ctx.Done() == nil { // as often as a caller does not care, and far cheaper
		return valued{owner, ctx}, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(owner, func() { cancel(context.Cause(owner)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// Outlive derives a context that ends when owner does, and not when ctx does,
// of which it has the values.
func Outlive(ctx, owner context.Context) context.Context {
	if ctx.Done() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	return valued{owner, ctx}
}

// valued has the values of a context that never ends, and the end of another.
type valued struct {
	context.Context
	values context.Context
}

func (v valued) Value(key any) any {
	if found := v.values.Value(key); found != nil {
		return found
	}
	return v.Context.Value(key)
}

// Sleep waits for d, or for ctx to end, which is an error.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return Why(ctx)
	}
}
