package etcd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/remote"
)

// do makes a request, again and again while etcd cannot be reached, until it is
// answered, ctx ends, or there was no answer for Info.Expiry. The request must
// be one that can be repeated.
func (b *Backend) do(ctx context.Context, request func(context.Context) error) error {
	return b.repeat(ctx, ctx, request)
}

// repeat is do for a request whose answer matters even when nobody waits for it
// any more: an attempt runs under live, but none is begun after ctx ended.
func (b *Backend) repeat(ctx, live context.Context, request func(context.Context) error) error {
	start := b.clock()
	pause := remote.ShortestPause
	for n := 0; ; n++ {
		if err := b.takeRoom(ctx, live); err != nil {
			return err
		}
		left := b.giveUp(start) - b.clock()
		err := b.attempt(live, max(min(b.patience()<<min(n/2, 2), left), remote.ShortestPause), request)
		<-b.room
		if answered(err) {
			b.hear()
		}
		if err == nil || !temporary(err) {
			return b.explain(err)
		}
		if ended := remote.Why(live); ended != nil {
			return ended
		}
		if b.clock() >= b.giveUp(start) {
			return backend.Unavailable(b.info.Service, err)
		}
		waiting, stop := remote.Join(ctx, live)
		err = remote.Sleep(waiting, pause/2+rand.N(pause))
		stop()
		if err != nil {
			return err
		}
		pause = min(2*pause, remote.LongestPause)
	}
}

// takeRoom waits until there is room for another request. Attempts are bounded,
// so it gets its turn.
func (b *Backend) takeRoom(ctx, live context.Context) error {
	select {
	case b.room <- struct{}{}:
		return nil
	default:
	}
	select {
	case b.room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return remote.Why(ctx)
	case <-live.Done():
		return remote.Why(live)
	}
}

// giveUp is when a request that was begun at start ends: after etcd was silent
// for Info.Expiry, but not before the request had a third of that for itself,
// and not after it had twice of it where etcd answers others.
func (b *Backend) giveUp(start time.Duration) time.Duration {
	silent := time.Duration(b.heard.Load()) + b.info.Expiry
	return min(max(silent, start+b.info.Expiry/3), start+2*b.info.Expiry)
}

// attempt bounds one attempt, so that a member that went mute does not use up
// all the time there is: the next attempt goes to another one. It does so by
// cancelling, not by a deadline, which would have the server keep a timer, too.
func (b *Backend) attempt(ctx context.Context, d time.Duration, request func(context.Context) error) error {
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	var late atomic.Bool
	timer := time.AfterFunc(d, func() {
		late.Store(true)
		cancel()
	})
	defer timer.Stop()
	err := request(limited)
	if err != nil && late.Load() && ctx.Err() == nil && temporary(err) {
		return noAnswer{d}
	}
	return err
}

// noAnswer is the end of an attempt that etcd did not answer. It does not wrap
// context.DeadlineExceeded: the caller's ctx had no part in it.
type noAnswer struct{ after time.Duration }

func (e noAnswer) Error() string {
	return fmt.Sprintf("no answer within %v", e.after.Round(time.Millisecond))
}

// patience is how long a first attempt may take.
func (b *Backend) patience() time.Duration {
	return min(max(b.ttl/8, 500*time.Millisecond), 5*time.Second)
}

// clock is the monotonic time since the Backend was made.
func (b *Backend) clock() time.Duration { return time.Since(b.born) }

// hear notes that etcd answered.
func (b *Backend) hear() { b.heard.Store(int64(b.clock())) }
