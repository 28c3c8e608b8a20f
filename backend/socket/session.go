//go:build linux || darwin

package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gocoord/coord/backend"
)

// A Backend is one client of a socket. It implements backend.Backend.
type Backend struct {
	at   layout
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
	b := &Backend{at: at, info: info(at.path), calls: make(map[uint64]*call), leases: make(map[uint64]*lease)}
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

// first finds a server, or becomes it. What waiting does not mend is an error.
func (b *Backend) first(ctx context.Context) (*attachment, error) {
	deadline := time.Now().Add(patience)
	var pause backoff
	for {
		occ, err := b.at.occupied()
		if err == nil && occ == aFile {
			if err = b.at.awaitRemoval(ctx); err != nil {
				return nil, err
			}
			deadline = time.Now().Add(patience)
			continue
		}
		if err == nil && b.member == nil {
			b.member, err = b.at.join()
		}
		if err != nil {
			return nil, err
		}
		a, err := b.attach(ctx)
		if err == nil {
			return a, nil
		}
		if !passing(err) {
			return nil, err
		}
		if time.Now().After(deadline) {
			return nil, backend.Unavailable(b.at.path, err)
		}
		if !pause.wait(ctx) {
			return nil, fmt.Errorf("%w (%w)", backend.ContextError(ctx), err)
		}
	}
}

// An attachment is a connection to a server, or the server itself.
type attachment struct {
	server  *server
	loop    *loopback
	wire    *wire
	sidecar identity
}

// A passing error is one of a moment in which servers change.
type passingError struct{ error }

func (p passingError) Unwrap() error { return p.error }

func passing(err error) bool {
	var p passingError
	return errors.As(err, &p)
}

// attach connects to the server at the path, or becomes it.
func (b *Backend) attach(ctx context.Context) (*attachment, error) {
	w, err := b.dial(ctx)
	switch {
	case err == nil:
		return b.greet(ctx, w)
	case errors.Is(err, syscall.EAGAIN):
		return nil, passingError{err} // its backlog is full
	case !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	s, takeErr := takeOver(b.at, b.member.id)
	switch {
	case errors.Is(takeErr, errOccupied):
		return nil, passingError{takeErr}
	case takeErr != nil:
		return nil, takeErr
	case s == nil:
		return nil, passingError{fmt.Errorf("another process is about to serve (%w)", err)}
	}
	return b.serve(s)
}

func (b *Backend) dial(ctx context.Context) (*wire, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", b.at.path)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		_ = c.Close()
		return nil, fmt.Errorf("%w: a connection of type %T", backend.ErrUnsupported, c)
	}
	if err := b.at.checkPeer(u); err != nil {
		_ = c.Close()
		return nil, err
	}
	w, err := newWire(u)
	if err != nil {
		_ = c.Close()
	}
	return w, err
}

// greet introduces this client to the server, and settles with it what both
// believe: leases that the server does not know are lost, claims that this
// client gave up are dropped, and what was not answered is asked again.
func (b *Backend) greet(ctx context.Context, w *wire) (*attachment, error) {
	stop := context.AfterFunc(ctx, func() { _ = w.conn.Close() })
	defer stop()
	peer := "the server"
	if pid, _, err := peerOf(w.conn); err == nil {
		peer = fmt.Sprintf("the server, process %d,", pid)
	}
	_ = w.conn.SetReadDeadline(time.Now().Add(patience))
	w.send(b.hello())
	body, err := w.receive(maxReply)
	if err != nil {
		w.close()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fmt.Errorf("%s does not answer: is it stopped?", peer)
			return nil, backend.Unavailable(b.at.path, err)
		}
		return nil, passingError{err}
	}
	_ = w.conn.SetReadDeadline(time.Time{})
	r, err := parseReply(body)
	if err == nil {
		err = r.err()
	}
	if err != nil {
		w.close()
		return nil, err
	}
	id, err := identifyPath(b.at.sidecar())
	if err != nil {
		w.close()
		return nil, passingError{err}
	}
	w.turns = newTurns()
	b.settle(w, peer, r.held)
	return &attachment{wire: w, sidecar: id}, nil
}

func identifyPath(path string) (identity, error) {
	fi, err := os.Lstat(path)
	if err != nil {
		return identity{}, err
	}
	return identityOf(fi), nil
}

// hello names the claims that go on.
func (b *Backend) hello() *request {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := &request{op: opHello, member: b.member.id}
	for seq := range b.leases {
		q.seqs = append(q.seqs, seq)
	}
	for seq, c := range b.calls {
		if c.op == opAcquire {
			q.seqs = append(q.seqs, seq)
		}
	}
	return q
}

// serve makes this client the server.
func (b *Backend) serve(s *server) (*attachment, error) {
	select {
	case <-s.gate:
	case <-b.ctx.Done():
		s.stop()
		return nil, backend.ErrClosed
	}
	sess := s.session(b.member.id)
	lo := newLoopback(b, sess)
	hello := b.hello()
	if !sess.attach(lo, 0, hello.seqs) {
		lo.close()
		s.stop()
		return nil, passingError{errors.New("the server ended as it began")}
	}
	held := <-lo.greeting
	b.settle(lo, "this process", held)
	b.server.Store(s)
	return &attachment{server: s, loop: lo, sidecar: s.id}, nil
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
