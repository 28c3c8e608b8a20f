//go:build linux || darwin

package socket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocoord/coord/backend"
)

// A Backend is one client of a socket. It implements backend.Backend.
type Backend struct {
	at   layout
	via  string // where to connect to: the socket's path, or a test's proxy
	info backend.Info

	// server is set while this client serves. Then calls go straight to its
	// engine.
	server atomic.Pointer[server]

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	loops  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	member *member
	link   link // where requests go; nil while there is none
	peer   string
	number uint64
	calls  map[uint64]*call  // that wait for an answer
	leases map[uint64]*lease // by the number of their opAcquire
	cause  error             // why there was no server when last looked for

	heard    atomic.Uint64 // frames from the server
	watchdog *time.Timer   // runs while calls wait
	watching bool          // it does
	silence  silence
}

var _ backend.Backend = (*Backend)(nil)

// A link takes requests to the server, in order and without waiting.
type link interface{ request(q *request) }

func (w *wire) request(q *request) { w.send(q) }

// patience is how long a server may say nothing at all before calls that wait
// for it are told. It decides about no hold.
var patience = 10 * time.Second

func open(ctx context.Context, cfg config) (*Backend, error) {
	if err := backend.ContextError(ctx); err != nil {
		return nil, err
	}
	at, err := newLayout(cfg)
	if err != nil {
		return nil, err
	}
	b := &Backend{at: at, via: cmp.Or(cfg.via, at.path), info: info(at.path), calls: make(map[uint64]*call), leases: make(map[uint64]*lease)}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.watchdog = time.AfterFunc(time.Hour, b.listen)
	b.watchdog.Stop()
	joining, cancel := context.WithCancel(ctx)
	defer cancel()
	a, err := b.first(joining)
	if err != nil {
		if b.member != nil {
			b.member.leave(at)
		}
		if ended := backend.ContextError(ctx); ended != nil && !errors.Is(err, ended) {
			err = fmt.Errorf("%w: %w", ended, err)
		}
		return nil, err
	}
	b.loops.Go(func() { b.run(a) })
	return b, nil
}

// run keeps the client attached to a server until it closes.
func (b *Backend) run(a *attachment) {
	var pause backoff
	for {
		if a != nil {
			pause = backoff{}
			again := b.stay(a)
			a = nil
			if !again {
				return
			}
		}
		if err := b.member.check(b.at); err != nil {
			b.lose(err)
			b.rejoin(err)
		}
		next, err := b.attach(b.ctx)
		if err == nil {
			a = next
			continue
		}
		b.unreachable(err)
		if !pause.wait(b.ctx) {
			return
		}
	}
}

// stay returns when the attachment has ended, or false when the client closes.
func (b *Backend) stay(a *attachment) (again bool) {
	guard := newGuard(b.at, a, b.member)
	defer guard.close()
	ended := make(chan struct{})
	var failed <-chan error
	var reading sync.WaitGroup
	if a.server != nil {
		failed = a.server.failed
	} else {
		reading.Go(func() {
			defer close(ended)
			b.read(a.wire)
		})
	}
	var cause error
	for cause == nil {
		select {
		case <-b.ctx.Done():
			cause = backend.ErrClosed
		case <-ended:
			cause = errServerGone
		case err := <-failed:
			cause = err
		case <-guard.alarm:
			cause = guard.check()
		}
	}
	if cause == errServerGone { //nolint:errorlint // it is never wrapped
		if err := guard.check(); err != nil {
			cause = err // that may be why
		}
	}
	b.leaveServer(a, cause)
	reading.Wait()
	switch {
	case errors.Is(cause, backend.ErrClosed):
		return false
	case cause != errServerGone: //nolint:errorlint // it is never wrapped
		b.rejoin(cause)
	}
	return true
}

var errServerGone = errors.New("the server has gone; another one takes over")

// leaveServer ends an attachment. Where this client can no longer rely on what
// it holds, its holds end first.
func (b *Backend) leaveServer(a *attachment, cause error) {
	b.mu.Lock()
	b.link = nil
	b.mu.Unlock()
	if cause != errServerGone && !errors.Is(cause, backend.ErrClosed) { //nolint:errorlint // it is never wrapped
		b.lose(cause)
	}
	if a.wire != nil {
		a.wire.close()
		return
	}
	s := a.server
	if errors.Is(cause, backend.ErrClosed) {
		_ = s.local.Close()
	} else {
		s.local.End(cause)
	}
	b.server.Store(nil)
	s.stop()
	a.loop.close()
}

// rejoin begins anew as another member, after what this one had was lost.
func (b *Backend) rejoin(cause error) {
	b.member.leave(b.at)
	var pause backoff
	for {
		m, err := b.at.join()
		if err == nil {
			b.mu.Lock()
			b.member = m
			b.mu.Unlock()
			return
		}
		b.unreachable(fmt.Errorf("%w (after: %w)", err, cause))
		if !pause.wait(b.ctx) {
			return
		}
	}
}

// A backoff is the pauses between attempts, with jitter: servers change within
// milliseconds.
type backoff struct{ n int }

func (o *backoff) wait(ctx context.Context) bool {
	const shortest, longest = 500 * time.Microsecond, 20 * time.Millisecond
	d := min(shortest<<min(o.n, 10), longest)
	o.n++
	t := time.NewTimer(d/2 + rand.N(d))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// Info implements backend.Backend. Expiry is zero: the kernel says at once when
// a client has died.
func (b *Backend) Info() backend.Info { return b.info }

// Close releases every lease and leaves. If this client serves, its claims are
// all that ends: another client takes over.
func (b *Backend) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		b.loops.Wait()
		return nil
	}
	b.closed = true
	b.endLocked(backend.ErrReleased, backend.ErrClosed)
	bye := b.startLocked(&request{op: opBye})
	b.mu.Unlock()
	if s := b.server.Load(); s != nil {
		_ = s.local.Close()
	}
	if bye != nil {
		timer := time.NewTimer(closeTimeout)
		defer timer.Stop()
		select {
		case <-bye.done:
		case <-timer.C: // the kernel will tell the server
		}
	}
	b.cancel()
	b.loops.Wait()
	b.mu.Lock()
	b.watchdog.Stop()
	m := b.member
	b.mu.Unlock()
	m.leave(b.at)
	return nil
}

// closeTimeout bounds how long Close waits for a server that says nothing.
const closeTimeout = 2 * time.Second
