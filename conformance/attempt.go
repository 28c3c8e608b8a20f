package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing/synctest"
	"time"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
)

// An attempt is a call in progress that has, perhaps, to wait.
type attempt[V any] struct {
	t      *T
	who    string
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	value  V
	err    error
}

// errCutShort is the error of a call that panicked, or that failed the check.
var errCutShort = errors.New("the call did not return")

// begin calls f on a goroutine of its own.
func begin[V any](t *T, who string, f func(context.Context) (V, error)) *attempt[V] {
	a := &attempt[V]{t: t, who: who, done: make(chan struct{})}
	a.ctx, a.cancel = context.WithCancel(t.ctx)
	t.tasks.Go(func() {
		defer close(a.done)
		defer t.noPanic()
		a.err = errCutShort
		a.value, a.err = f(a.ctx)
	})
	return a
}

// beginError is begin for what returns nothing but an error.
func beginError(t *T, who string, f func(context.Context) error) *attempt[struct{}] {
	return begin(t, who, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
}

// ignoringContext is for what takes none.
func ignoringContext(f func() error) func(context.Context) error {
	return func(context.Context) error { return f() }
}

// get waits for what must succeed at once.
func (a *attempt[V]) get() V {
	if !within(a.t.h.Slack, a.done) {
		a.t.Fatalf("%s still waits after %v; want it to succeed at once", a.who, a.t.h.Slack)
	}
	if a.err != nil {
		a.t.Fatalf("%s: %v; want success", a.who, a.err)
	}
	return a.value
}

// outcome is the error of the call, or that it has not returned.
func (a *attempt[V]) outcome() error {
	select {
	case <-a.done:
		return a.err
	default:
		return errCutShort
	}
}

// fails waits for what must fail at once, with one of these errors.
func (a *attempt[V]) fails(want ...error) {
	a.failsWithin(a.t.h.Slack, want...)
}

func (a *attempt[V]) failsWithin(limit time.Duration, want ...error) {
	if !within(limit, a.done) {
		a.t.Fatalf("%s still waits after %v; want %v", a.who, limit, want)
	}
	a.t.isError(a.who, a.err, want...)
}

// waits fails the check if the call has returned.
func (a *attempt[V]) waits() {
	a.t.settle()
	select {
	case <-a.done:
		if a.err != nil {
			a.t.Fatalf("%s: %v; want it to wait", a.who, a.err)
		}
		a.t.Fatalf("%s succeeded; want it to wait", a.who)
	default:
	}
}

// await gives f the time that may pass for what happens at once. F returns
// false when it has given up.
func (t *T) await(what string, f func(stop <-chan struct{}) bool) {
	ctx, cancel := context.WithTimeout(t.ctx, t.h.Slack)
	defer cancel()
	if !f(ctx.Done()) {
		t.Fatalf("still waiting for %s after %v", what, t.h.Slack)
	}
}

// isError fails the check unless err is one of want.
func (t *T) isError(who string, err error, want ...error) {
	for _, w := range want {
		if errors.Is(err, w) {
			return
		}
	}
	text := make([]string, len(want))
	for i, w := range want {
		text[i] = fmt.Sprintf("%q", w)
	}
	if err == nil {
		t.Fatalf("%s succeeded; want the error %s", who, strings.Join(text, " or "))
	}
	t.Fatalf("%s: %v; want the error %s", who, err, strings.Join(text, " or "))
}

// ok fails the check if err is not nil.
func (t *T) ok(what string, err error) {
	if err != nil {
		t.Fatalf("%s: %v; want success", what, err)
	}
}

// settle lets happen what is about to happen. In a bubble that is exact; with
// a real service it is a while, so that a fault may go unseen but none is made
// up.
func (t *T) settle() {
	if t.h.Virtual {
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		return
	}
	time.Sleep(20*time.Millisecond + 2*t.h.Expect.Poll)
}

// held fails the check if the hold or lease has ended.
func (t *T) held(who string, h interface {
	Done() <-chan struct{}
	Err() error
}) {
	select {
	case <-h.Done():
		t.Fatalf("%s: Done is closed; want it held", who)
	default:
	}
	if err := h.Err(); err != nil {
		t.Fatalf("%s: Err is %v; want it held", who, err)
	}
}

// over waits for the end of a hold or lease, and wants it for this reason.
func (t *T) over(who string, h interface {
	Done() <-chan struct{}
	Err() error
}, reason error) {
	if !within(t.h.Slack, h.Done()) {
		t.Fatalf("%s: Done is open after %v; want it closed, with %q", who, t.h.Slack, reason)
	}
	if err := h.Err(); !errors.Is(err, reason) {
		t.Fatalf("%s: Err is %v; want %q", who, err, reason)
	}
}

// release releases a hold that has not been lost.
func (t *T) release(who string, h *coord.Hold) {
	err := h.Release()
	if t.h.flaky && errors.Is(err, coord.ErrUnavailable) {
		return
	}
	t.ok("Release of "+who, err)
}

// give releases a lease that has not been lost.
func (t *T) give(who string, l backend.Lease) {
	t.ok("Release of "+who, l.Release(t.ctx))
}

// retry repeats f while the service is unavailable, if that can be.
func (t *T) retry(f func() error) error {
	for {
		err := f()
		if !t.h.flaky || !errors.Is(err, backend.ErrUnavailable) || t.ctx.Err() != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// inLine waits until n entries are in line, and returns the line.
func (c *client) inLine(p backend.Place, n int) []backend.Entry {
	return c.line(p, fmt.Sprintf("%d entries", n), func(line []backend.Entry) bool { return len(line) == n }).Entries
}

// free waits until nobody is in line.
func (c *client) free(p backend.Place) { c.inLine(p, 0) }

// show prints a line.
func show(line []backend.Entry) string {
	if len(line) == 0 {
		return "empty"
	}
	text := make([]string, len(line))
	for i, e := range line {
		state := "waits"
		if e.Admitted {
			state = "admitted"
		}
		text[i] = fmt.Sprintf("%s of %s (%s, token %d, %s)", e.Claim.Mode, e.Claim.Owner, e.ID, e.Token, state)
	}
	return fmt.Sprintf("%d: %s", len(line), strings.Join(text, "; "))
}
