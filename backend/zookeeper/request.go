package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/remote"
)

// start makes a request of the client's, which has no context and blocks while
// there is no connection. Its result comes through the channel.
func start[T any](b *Backend, f func() (T, error)) <-chan result[T] {
	ch := make(chan result[T], 1)
	if !b.spawn(func() {
		select {
		case b.room <- struct{}{}:
		case <-b.ctx.Done():
			ch <- result[T]{err: backend.ErrClosed}
			return
		}
		v, err := f()
		<-b.room
		ch <- result[T]{v, err}
	}) {
		ch <- result[T]{err: backend.ErrClosed}
	}
	return ch
}

type result[T any] struct {
	value T
	err   error
}

// await is the result, unless ctx ends before.
func await[T any](ctx context.Context, ch <-chan result[T]) (T, error) {
	select {
	case r := <-ch:
		return r.value, r.err
	case <-ctx.Done():
		var zero T
		return zero, remote.Why(ctx)
	}
}

// do makes a request, again and again while ZooKeeper cannot be reached, until
// it is answered, ctx ends, or there was no answer for Info.Expiry. The request
// must be one that can be repeated; its path is for messages.
func do[T any](ctx context.Context, b *Backend, path string, f func() (T, error)) (T, error) {
	r := b.newRetry()
	for {
		v, err := await(ctx, start(b, f))
		if err == nil {
			return v, nil
		}
		if ended := remote.Why(ctx); ended != nil {
			return v, ended
		}
		if !temporary(err) {
			return v, b.judge(path, err)
		}
		if err := r.pause(ctx, err); err != nil {
			return v, err
		}
	}
}

// judge is explain for what was not explained yet.
func (b *Backend) judge(path string, err error) error {
	if errors.Is(err, backend.ErrClosed) {
		return err
	}
	return b.explain(path, err)
}

// A retry bounds the repeats of a request.
type retry struct {
	b     *Backend
	start time.Time
	next  time.Duration
}

func (b *Backend) newRetry() retry { return retry{b: b, start: time.Now(), next: remote.ShortestPause} }

// pause waits before another attempt after err, or says why there is none.
func (r *retry) pause(ctx context.Context, err error) error {
	if r.b.silent(r.start) {
		return backend.Unavailable(r.b.info.Service, err)
	}
	d := r.next/2 + rand.N(r.next)
	r.next = min(2*r.next, remote.LongestPause)
	return remote.Sleep(ctx, d)
}

// silent reports whether a call that was begun at start has waited long enough:
// ZooKeeper was silent for Info.Expiry, and the call had a third of that for
// itself.
func (b *Backend) silent(start time.Time) bool {
	return time.Since(b.d.lastHeard()) > b.info.Expiry && time.Since(start) > b.info.Expiry/3
}

// noAnswer is the error of a call that gives up.
func (b *Backend) noAnswer() error {
	return backend.Unavailable(b.info.Service, fmt.Errorf("no answer within %v", b.info.Expiry))
}
