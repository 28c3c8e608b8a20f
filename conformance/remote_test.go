package conformance

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/backend/memory"
)

const remoteExpiry = 10 * time.Second

// A remote is a client of a service that can be cut off: memory at the end of
// a wire. Its session ends when the service has not heard of it for
// remoteExpiry. It is here so that the checks of sessions, and the lies about
// them, can be tested where time costs nothing.
type remote struct {
	service func() backend.Backend // opens a session

	// How it lies, if it does.
	silent   bool          // Done never closes on loss
	late     time.Duration // Done closes so much after the service has let go
	keeps    bool          // the entries of a crashed client stay
	nervous  bool          // a cut of any length loses the session
	deafness bool          // calls on a cut wire ignore their ctx

	mu      sync.Mutex
	session backend.Backend
	ended   chan struct{} // the session is over
	cut     chan struct{} // nil, or closed by heal
	since   time.Time     // of the cut
	dead    chan struct{} // closed by Close and by a crash
	leases  []*remoteLease
}

func newRemote(service func() backend.Backend) *remote {
	return &remote{service: service, session: service(), ended: make(chan struct{}), dead: make(chan struct{})}
}

// onRemote is a harness of remotes of one memory.
func onRemote() Harness {
	h := onMemory()
	h.Expect.Scope, h.Expect.Expiry, h.Expect.Name = backend.Network, remoteExpiry, "remote"
	h.Open = func(tb testing.TB) backend.Backend {
		return newRemote(func() backend.Backend { return memory.Open(tb.Name()) })
	}
	h.Crash = func(_ testing.TB, b backend.Backend) { b.(*remote).crash() }
	h.Sever = func(_ testing.TB, b backend.Backend) func() { return b.(*remote).sever() }
	return h
}

func TestRemote(t *testing.T) { Run(t, onRemote()) }

func (r *remote) Info() backend.Info {
	info := memory.New().Info()
	info.Name, info.Scope, info.Expiry = "remote", backend.Network, remoteExpiry
	info.Service = "memory at the end of a wire"
	return info
}

// sever cuts the wire. The session ends for both sides unless it is healed in
// time, for this side first.
func (r *remote) sever() (heal func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut, r.since = make(chan struct{}), time.Now()
	cut, session, ended := r.cut, r.session, r.ended
	limit := remoteExpiry
	if r.nervous {
		limit = 0
	}
	over := make(chan struct{})
	timer := time.AfterFunc(limit, func() {
		defer close(over)
		r.mu.Lock()
		select {
		case <-r.dead:
		default:
			r.session, r.ended = r.service(), make(chan struct{})
		}
		r.mu.Unlock()
		r.tellLost()
		close(ended)
		_ = session.Close()
	})
	var once sync.Once
	return func() {
		once.Do(func() {
			if !timer.Stop() {
				<-over
			}
			r.mu.Lock()
			r.cut = nil
			r.mu.Unlock()
			close(cut)
		})
	}
}

// tellLost ends the leases of a session, before the service does.
func (r *remote) tellLost() {
	r.mu.Lock()
	leases := r.leases
	r.leases = nil
	r.mu.Unlock()
	if r.silent {
		return
	}
	tell := func() {
		for _, l := range leases {
			l.end(backend.Lost("the service was not heard of for %v", remoteExpiry))
		}
	}
	if r.late > 0 {
		time.AfterFunc(r.late, tell)
		return
	}
	tell()
}

func (r *remote) crash() {
	close(r.dead)
	for _, l := range r.leases {
		l.end(backend.ErrReleased)
	}
	if r.keeps {
		return
	}
	time.AfterFunc(remoteExpiry, func() { _ = r.session.Close() })
}

// wire waits while the wire is cut, as long as the session and ctx last.
func (r *remote) wire(ctx context.Context) (backend.Backend, error) {
	for {
		r.mu.Lock()
		cut, session, ended, since := r.cut, r.session, r.ended, r.since
		r.mu.Unlock()
		select {
		case <-r.dead:
			return nil, backend.ErrClosed
		default:
		}
		if cut == nil {
			return session, nil
		}
		timer := time.NewTimer(time.Until(since.Add(remoteExpiry)))
		done := ctx.Done()
		if r.deafness {
			done = nil
		}
		select {
		case <-cut:
		case <-r.dead:
		case <-timer.C:
			return nil, backend.Unavailable("remote", nil)
		case <-ended:
		case <-done:
			timer.Stop()
			return nil, backend.ContextError(ctx)
		}
		timer.Stop()
	}
}

// call makes a call whose answer comes over the wire.
func (r *remote) call(ctx context.Context, f func(context.Context, backend.Backend) error) error {
	session, err := r.wire(ctx)
	if err != nil {
		return err
	}
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	answered := make(chan struct{})
	go func() { defer close(answered); err = f(inner, session) }()
	select {
	case <-answered:
	case <-ctx.Done():
		cancel()
		<-answered // what was made all the same is given back by f
		return backend.ContextError(ctx)
	case <-r.dead:
		cancel()
		<-answered
		return backend.ErrClosed
	}
	if _, lost := r.wire(ctx); lost != nil {
		return lost
	}
	if errors.Is(err, backend.ErrClosed) {
		return backend.Unavailable("remote", errors.New("the session ended"))
	}
	return err
}

func (r *remote) Acquire(ctx context.Context, p backend.Place, c backend.Claim) (backend.Lease, error) {
	if ctx.Err() != nil {
		return nil, backend.ContextError(ctx)
	}
	var l backend.Lease
	err := r.call(ctx, func(ctx context.Context, b backend.Backend) (err error) {
		l, err = b.Acquire(ctx, p, c)
		return err
	})
	if err != nil {
		if l != nil {
			_ = l.Release(context.WithoutCancel(ctx))
		}
		return nil, err
	}
	lease := &remoteLease{Lease: l, r: r, done: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leases = append(r.leases, lease)
	return lease, nil
}

func (r *remote) Observe(ctx context.Context, p backend.Place, since backend.Version) (out backend.Roster, err error) {
	if ctx.Err() != nil {
		return out, backend.ContextError(ctx)
	}
	err = r.call(ctx, func(ctx context.Context, b backend.Backend) (err error) {
		out, err = b.Observe(ctx, p, since)
		return err
	})
	return out, err
}

func (r *remote) Gone(ctx context.Context, p backend.Place, id string) error {
	if ctx.Err() != nil {
		return backend.ContextError(ctx)
	}
	return r.call(ctx, func(ctx context.Context, b backend.Backend) error { return b.Gone(ctx, p, id) })
}

func (r *remote) Load(ctx context.Context, p backend.Place, since backend.Version) (out backend.Value, err error) {
	if ctx.Err() != nil {
		return out, backend.ContextError(ctx)
	}
	err = r.call(ctx, func(ctx context.Context, b backend.Backend) (err error) {
		out, err = b.Load(ctx, p, since)
		return err
	})
	return out, err
}

func (r *remote) Store(ctx context.Context, p backend.Place, data []byte, prev backend.Version, alive ...string) (v backend.Version, err error) {
	if ctx.Err() != nil {
		return "", backend.ContextError(ctx)
	}
	err = r.call(ctx, func(ctx context.Context, b backend.Backend) (err error) {
		v, err = b.Store(ctx, p, data, prev, alive...)
		return err
	})
	return v, err
}

// Close lets the service forget a session that it cannot be told of.
func (r *remote) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.dead:
		return nil
	default:
	}
	close(r.dead)
	for _, l := range r.leases {
		l.end(backend.ErrReleased)
	}
	if r.cut == nil {
		return r.session.Close()
	}
	return nil
}

// A remoteLease ends with its session, by this side's clock.
type remoteLease struct {
	backend.Lease
	r    *remote
	done chan struct{}

	mu  sync.Mutex
	err error
}

func (l *remoteLease) end(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = why
		close(l.done)
	}
}

func (l *remoteLease) Done() <-chan struct{} { return l.done }

func (l *remoteLease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *remoteLease) Deadline() (time.Time, bool) {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	if l.r.cut != nil {
		return l.r.since.Add(remoteExpiry), true
	}
	return time.Now().Add(remoteExpiry), true
}

// ifHeld is for what only a lease can do that has not ended.
func (l *remoteLease) ifHeld(ctx context.Context, f func(context.Context) error) error {
	if err := backend.ContextError(ctx); err != nil {
		return err
	}
	if err := l.Err(); err != nil {
		return err
	}
	return l.r.call(ctx, func(ctx context.Context, _ backend.Backend) error { return f(ctx) })
}

func (l *remoteLease) Downgrade(ctx context.Context) error { return l.ifHeld(ctx, l.Lease.Downgrade) }

func (l *remoteLease) Withdraw(ctx context.Context, v backend.Version) error {
	err := l.ifHeld(ctx, func(ctx context.Context) error { return l.Lease.Withdraw(ctx, v) })
	if errors.Is(err, backend.ErrReleased) {
		return nil
	}
	if err == nil {
		l.end(backend.ErrReleased)
	}
	return err
}

func (l *remoteLease) Release(ctx context.Context) error {
	if err := l.Err(); err != nil {
		if errors.Is(err, backend.ErrLost) {
			return err
		}
		return nil
	}
	l.end(backend.ErrReleased)
	err := l.r.call(ctx, func(ctx context.Context, _ backend.Backend) error { return l.Lease.Release(ctx) })
	if err != nil && !errors.Is(err, backend.ErrClosed) {
		go func() {
			_ = l.r.call(context.Background(), func(ctx context.Context, _ backend.Backend) error { return l.Lease.Release(ctx) })
		}()
		return err
	}
	return nil
}
