package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
)

// A client is one client of the service under test, as an application and as
// the contract see it.
type client struct {
	*coord.Client
	b      backend.Backend
	t      *T
	closed bool // by the check, or crashed
}

// open opens one more client. It is closed when the check ends.
func (t *T) open(opts ...coord.Option) *client {
	b := t.h.Open(t)
	if b == nil {
		t.Fatalf("Harness.Open returned nil")
	}
	c := &client{b: b, t: t}
	t.mu.Lock()
	t.clients = append(t.clients, c)
	t.mu.Unlock()
	var err error
	if c.Client, err = coord.New(b, opts...); err != nil {
		t.Fatalf("coord.New: %v", err)
	}
	return c
}

// opens opens several clients.
func (t *T) opens(n int) []*client {
	out := make([]*client, n)
	for i := range out {
		out[i] = t.open()
	}
	return out
}

func (t *T) opened() []*client {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]*client(nil), t.clients...)
}

// shut closes the client in the middle of a check.
func (c *client) shut() {
	c.closed = true
	c.close()
}

// finish closes the client at the end of a check, unless it is already.
func (c *client) finish() {
	if !c.closed {
		c.close()
	}
}

func (c *client) close() {
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		if c.Client == nil {
			err = c.b.Close()
			return
		}
		err = c.Client.Close()
	}()
	if limit := c.t.bounded(); !within(limit, done) {
		c.t.Errorf("Close did not return within %v; all goroutines:\n%s", limit, stacks())
		return
	}
	if err != nil && !c.t.h.flaky {
		c.t.Errorf("Close: %v; want nil", err)
	}
}

// crash ends the client as SIGKILL would.
func (c *client) crash() {
	c.closed = true
	c.t.h.Crash(c.t, c.b)
}

// bounded is how long a call may take that the contract says returns "in
// bounded time".
func (t *T) bounded() time.Duration { return t.h.Slack + max(10*time.Second, t.h.Expect.Expiry) }

// acquire starts an Acquire.
func (c *client) acquire(who string, p backend.Place, claim backend.Claim) *attempt[backend.Lease] {
	if claim.Owner == "" {
		claim.Owner = who
	}
	return begin(c.t, who, func(ctx context.Context) (backend.Lease, error) { return c.b.Acquire(ctx, p, claim) })
}

// take acquires what is free.
func (c *client) take(who string, p backend.Place, claim backend.Claim) backend.Lease {
	return c.acquire(who, p, claim).get()
}

// queue starts an Acquire that has to wait, and returns when it is in line
// behind the n-1 that are there already.
func (c *client) queue(n int, who string, p backend.Place, claim backend.Claim) *attempt[backend.Lease] {
	a := c.acquire(who, p, claim)
	c.inLine(p, n)
	a.waits()
	return a
}

// line waits until the line of p is as wanted. It does not depend on the
// blocking form of Observe, which has checks of its own.
func (c *client) line(p backend.Place, want string, ok func([]backend.Entry) bool) backend.Roster {
	c.t.Helper()
	var since backend.Version
	var last backend.Roster
	deadline := time.Now().Add(c.t.h.Slack)
	for {
		ctx, cancel := context.WithTimeout(c.t.ctx, 50*time.Millisecond)
		if since == "" {
			cancel()
			ctx, cancel = context.WithDeadline(c.t.ctx, deadline)
		}
		roster, err := c.b.Observe(ctx, p, since)
		cancel()
		switch {
		case err == nil && ok(roster.Entries):
			return roster
		case err == nil:
			last, since = roster, roster.Version
		case since != "" && errors.Is(err, context.DeadlineExceeded), c.t.h.flaky && errors.Is(err, backend.ErrUnavailable):
			since = ""
		default:
			c.t.Fatalf("Observe(%v): %v", p, err)
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("the line of %v is %v after %v; want %s", p, show(last.Entries), c.t.h.Slack, want)
		}
	}
}

// now returns the line as it is.
func (c *client) now(p backend.Place) []backend.Entry {
	return c.line(p, "any", func([]backend.Entry) bool { return true }).Entries
}

// register loads the register as it is.
func (c *client) register(p backend.Place) backend.Value {
	for {
		v, err := c.b.Load(c.t.ctx, p, "")
		if err == nil {
			return v
		}
		if !c.t.h.flaky || !errors.Is(err, backend.ErrUnavailable) {
			c.t.Fatalf("Load(%v): %v", p, err)
		}
	}
}

// store replaces the register, and must succeed.
func (c *client) store(p backend.Place, data []byte, prev backend.Version, alive ...string) backend.Version {
	v, err := c.b.Store(c.t.ctx, p, data, prev, alive...)
	if err != nil {
		c.t.Fatalf("Store(%v): %v; want success", p, err)
	}
	return v
}
