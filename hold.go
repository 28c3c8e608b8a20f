package coord

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/gocoord/coord/backend"
)

// A Hold is proof of admission: to a lock, a permit, leadership or membership.
// It ends by Release, by loss or with its client, and never comes back. Its
// methods are safe for concurrent use.
type Hold struct {
	*handle
	lease backend.Lease
}

// acquire is how every primitive gets its hold.
func (h *handle) acquire(ctx context.Context, op string, claim backend.Claim) (*Hold, error) {
	if err := h.ready(ctx); err != nil {
		return nil, h.fail(op, err)
	}
	claim.Owner = h.c.options.owner
	if h.c.observed() {
		return h.acquireObserved(ctx, op, claim)
	}
	lease, err := h.c.backend.Acquire(ctx, h.place, claim)
	if err != nil {
		return nil, h.fail(op, err)
	}
	return &Hold{handle: h, lease: lease}, nil
}

// Name is the name of what is held.
func (h *Hold) Name() string { return h.place.Name }

// Token is the fencing token: positive, and greater than that of every
// conflicting hold of this name before. For a hold of [All] it is the greatest
// of its parts' tokens; a resource that one of the locks guards wants the token
// of that part.
func (h *Hold) Token() uint64 { return h.lease.Token() }

// Parts returns the holds that a hold of [All] consists of, in the order of
// its arguments; nil for any other.
func (h *Hold) Parts() []*Hold {
	if l, ok := h.lease.(*allLease); ok {
		return slices.Clone(l.parts)
	}
	return nil
}

// Done is closed when the hold ends, by release or by loss.
func (h *Hold) Done() <-chan struct{} { return h.lease.Done() }

// Err is nil while held. Afterwards it is ErrReleased, or ErrLost with its
// cause.
func (h *Hold) Err() error { return h.fail("hold", h.lease.Err()) }

// Deadline is until when the hold is certain without another word from the
// service. It moves on while the session is renewed. False means that there is
// no such limit.
func (h *Hold) Deadline() (time.Time, bool) { return h.lease.Deadline() }

// Context returns a child of parent that also ends when the hold does, with
// Err as its cause. Cancel frees what it uses and does not touch the hold.
func (h *Hold) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	if err := h.Err(); err != nil {
		cancel(err)
		return ctx, func() {}
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-h.Done():
			cancel(h.Err())
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(context.Canceled)
		<-stopped
	}
}

// Downgrade turns a writer's hold into a reader's, in place: waiting readers
// join it, and no writer gets in between. It is ErrInvalid for a hold that is
// neither. After any other error the hold may be a reader's already: do not
// write under it any more. It can be asked for again.
func (h *Hold) Downgrade(ctx context.Context) error {
	const op = "downgrade"
	if h.place.Kind != backend.RWMutex && h.place.Kind != backend.Mutex {
		return h.fail(op, fmt.Errorf("%w: a %s has no reader's side", ErrInvalid, h.place.Kind))
	}
	if err := h.ready(ctx); err != nil {
		return h.fail(op, err)
	}
	return h.fail(op, h.lease.Downgrade(ctx))
}

// Release gives the hold back. It needs no ctx, so that it also works in a
// defer after the caller's has ended: it waits no longer than the release
// timeout and then returns ErrUnavailable, while the clean-up goes on in the
// background. A second Release is nil. If the hold was lost before, somebody
// else may have been at work since: ErrLost.
func (h *Hold) Release() error {
	ctx, cancel := h.c.cleanup()
	defer cancel()
	return h.fail("release", h.c.released(h.lease.Release(ctx)))
}

// cleanup returns a ctx for what has to be done whatever became of the
// caller's. It has no timeout, and costs nothing, where no I/O is done.
func (c *Client) cleanup() (context.Context, context.CancelFunc) {
	if c.info.Scope == backend.Process {
		return context.Background(), func() {}
	}
	return context.WithTimeout(context.Background(), c.options.releaseTimeout)
}

// settle returns a ctx that outlives the caller's by the release timeout, for
// a request whose effect others may see at once, so that its answer must be
// known.
func (c *Client) settle(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.info.Scope == backend.Process {
		return ctx, func() {}
	}
	settling, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	timer := time.AfterFunc(math.MaxInt64, func() { cancel(context.DeadlineExceeded) })
	stop := context.AfterFunc(ctx, func() { timer.Reset(c.options.releaseTimeout) })
	return settling, func() {
		stop()
		timer.Stop()
		cancel(nil)
	}
}

// pause waits a moment before something is tried again, and reports whether ctx
// still goes on.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(10 * time.Millisecond):
		return true
	}
}

// released explains a release that the timeout cut short.
func (c *Client) released(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: no answer within %v; the clean-up goes on in the background, and the service ends the session %v after it last heard of it",
		ErrUnavailable, c.options.releaseTimeout, c.info.Expiry)
}

func (c *Client) observed() bool { return c.options.observer != nil || c.options.logger != nil }

// acquireObserved is acquire for clients that somebody watches. It costs a
// goroutine for each hold, which ends with the hold.
func (h *handle) acquireObserved(ctx context.Context, op string, claim backend.Claim) (*Hold, error) {
	start := time.Now()
	lease, err := h.c.backend.Acquire(ctx, h.place, claim)
	now := time.Now()
	if err != nil {
		err = h.fail(op, err)
		h.emit(Event{Type: EventGaveUp, Wait: now.Sub(start), Err: err})
		return nil, err
	}
	hold := &Hold{handle: h, lease: lease}
	h.emit(Event{Type: EventAcquired, Token: lease.Token(), Wait: now.Sub(start)})
	h.c.watch(func() {
		<-hold.Done()
		event := Event{Type: EventReleased, Token: lease.Token(), Held: time.Since(now)}
		if err := hold.Err(); errors.Is(err, ErrLost) {
			event.Type, event.Err = EventLost, err
		}
		h.emit(event)
	})
	return hold, nil
}

func (h *handle) emit(e Event) {
	e.Kind, e.Name = h.place.Kind, h.place.Name
	if h.c.options.observer != nil {
		h.c.options.observer(e)
	}
	if h.c.options.logger == nil {
		return
	}
	level := slog.LevelDebug
	if e.Type == EventLost {
		level = slog.LevelWarn
	}
	h.c.options.logger.Log(context.Background(), level, "coord: "+e.Type.String(),
		"kind", e.Kind.String(), "name", e.Name, "token", e.Token, "wait", e.Wait, "held", e.Held, "err", e.Err)
}
