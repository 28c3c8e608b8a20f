// Package coord coordinates processes: locks, read/write locks, barriers,
// semaphores, elections, groups and latches, by name.
//
// A config URL decides which service answers: this process's memory, etcd, or
// whatever other backend is linked in. Every backend keeps the same promises,
// so that switching is a matter of configuration:
//
//	import _ "github.com/gocoord/coord/backend/all"
//
//	client, err := coord.Open(ctx, "etcd://127.0.0.1:2379/orders")
//	...
//	defer client.Close()
//	hold, err := client.Locker("nightly-report").Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer hold.Release()
//
// # Holding
//
// Admission is proved by a [Hold], not by a call that returned: it carries the
// fencing token, it tells when it was lost, and only its owner can release it.
// No service can stop a process that it lost sight of. So a long piece of work
// runs under [Hold.Context] (or inside [With]), which ends when the hold does,
// and a resource that must never see a late writer checks [Hold.Token]; see
// package fence.
//
// # Order
//
// Conflicting claims are admitted in order of arrival. Adjacent readers run
// together, a waiting writer holds later readers back, a cancelled waiter makes
// room at once, and nobody starves. Nothing is re-entrant: a second Lock by the
// same client waits for the first.
//
// # Errors
//
// Every error is an [*Error] that wraps one of the sentinels here or a context
// error. docs/guarantees.md has the promises in full, with their limits.
package coord

import (
	"context"
	"fmt"
	"sync"

	"github.com/gocoord/coord/backend"
)

// A Locker is a lock that one holder has at a time. The lock is not
// re-entrant: a second Lock waits for the first, whoever calls.
type Locker interface {
	// Lock waits until the lock is held or ctx ends. The ctx bounds the wait
	// only; ending it later does not end the hold.
	Lock(ctx context.Context) (*Hold, error)
	// TryLock answers ErrBusy where Lock would have to wait for another claim.
	TryLock(ctx context.Context) (*Hold, error)
}

// An RWLocker is a lock that many readers or one writer have at a time. Lock
// and TryLock are the writer's side.
type RWLocker interface {
	Locker
	// RLock waits until a reader's share is held or ctx ends.
	RLock(ctx context.Context) (*Hold, error)
	// TryRLock answers ErrBusy where RLock would have to wait for a writer.
	TryRLock(ctx context.Context) (*Hold, error)
}

// A Barrier lets a fixed number of parties through together, round after
// round.
type Barrier interface {
	// Enter waits until all parties of a round have entered, or ctx ends. The
	// caller is inside until it calls Leave. When ctx ends at the moment the
	// round closes, and the others have counted this party, it has entered.
	Enter(ctx context.Context) (*Round, error)
	// Wait is Enter for those who need not know when the others are done.
	Wait(ctx context.Context) error
}

// A Client is a connection to a coordination service, with a session of its
// own. Its methods are safe for concurrent use. What it hands out does no I/O
// until used, and reports a bad name or number at first use.
type Client struct {
	backend   backend.Backend
	info      backend.Info
	options   options
	watchers  watchers
	registers registerCache // of barriers
	close     func() error
}

// Open connects to the service that a config URL names. Which schemes there
// are depends on the backends that the program imports; docs/urls.md lists them
// with their parameters. A malformed URL is ErrInvalid, and no error quotes its
// password.
func Open(ctx context.Context, rawURL string, opts ...Option) (*Client, error) {
	open, err := backend.Parse(rawURL)
	if err != nil {
		return nil, &Error{Op: "open", Err: err}
	}
	if err := ctx.Err(); err != nil {
		return nil, &Error{Op: "open", Err: backend.ContextError(ctx)}
	}
	b, err := open(ctx)
	if err != nil {
		return nil, &Error{Op: "open", Err: err}
	}
	return New(b, opts...)
}

// New makes a client of a ready backend, which it owns from then on: when an
// option is not met, too, b is closed.
func New(b backend.Backend, opts ...Option) (*Client, error) {
	c := &Client{backend: b, info: b.Info(), options: defaults()}
	c.close = sync.OnceValue(c.shut)
	for _, o := range opts {
		o(&c.options)
	}
	if err := c.options.unmet(c.info); err != nil {
		_ = b.Close()
		return nil, &Error{Op: "open", Backend: c.info.Name, Err: err}
	}
	return c, nil
}

// Info says what the backend promises.
func (c *Client) Info() backend.Info { return c.info }

// Close releases every hold, ends every wait with ErrClosed and gives the
// session back. It returns in bounded time even if the service does not
// answer; an error then says what may stay behind, and for how long.
func (c *Client) Close() error { return c.close() }

func (c *Client) shut() error {
	err := c.backend.Close()
	c.watchers.wait()
	if err != nil {
		return &Error{Op: "close", Backend: c.info.Name, Err: err}
	}
	return nil
}

// Inspect lists who holds a place and who waits for it, in order of arrival.
func (c *Client) Inspect(ctx context.Context, kind backend.Kind, name string) ([]backend.Entry, error) {
	h := c.handle(kind, name, nil)
	roster, err := h.observe(ctx, "inspect", "")
	return roster.Entries, err
}

// A handle is what the primitives have in common: a place of a client.
type handle struct {
	c     *Client
	place backend.Place
	err   error // what is wrong with the name or a number, told at first use
}

func (c *Client) handle(kind backend.Kind, name string, err error) handle {
	h := handle{c: c, place: backend.Place{Kind: kind, Name: name}, err: err}
	switch invalid := h.place.Check(); {
	case invalid != nil:
		h.err = invalid
	case !c.info.Supports(kind):
		h.err = fmt.Errorf("%w: backend %s has no %s", ErrUnsupported, c.info.Name, kind)
	}
	return h
}

// fail wraps an error of an operation on the place. It keeps nil and what is
// wrapped already.
func (h *handle) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	if _, done := err.(*Error); done {
		return err
	}
	return &Error{Op: op, Backend: h.c.info.Name, Name: h.place.Name, Err: err}
}

// ready reports why an operation cannot even start.
func (h *handle) ready(ctx context.Context) error {
	if h.err != nil {
		return h.err
	}
	return backend.ContextError(ctx)
}

func (h *handle) observe(ctx context.Context, op string, since backend.Version) (backend.Roster, error) {
	if err := h.ready(ctx); err != nil {
		return backend.Roster{}, h.fail(op, err)
	}
	roster, err := h.c.backend.Observe(ctx, h.place, since)
	return roster, h.fail(op, err)
}
