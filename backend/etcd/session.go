package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/remote"
)

// A session is a lease of etcd's and whatever is attached to it. Every claim
// belongs to one, and ends with it. A Backend that lost its session opens
// another one when it is next asked for a claim.
type session struct {
	b   *Backend
	id  clientv3.LeaseID
	ttl time.Duration // as granted

	ctx    context.Context // ends with the session
	cancel context.CancelCauseFunc
	timer  *time.Timer // runs at the deadline

	// Guarded by b.mu.
	deadline time.Time
	err      error // not nil once it has ended
	claims   map[*lease]struct{}
	slots    []uint64 // numbers that can be used again
	used     uint64   // the highest one so far
	bars     []bar
}

// bar is a key that keeps an entry out whose put may still be on its way.
type bar struct {
	key   string
	since time.Time
}

// A bar stays for as long as the session, since nothing bounds how long a
// request is on its way: a member that was stopped still has it when it goes on.
// Only of very many the oldest are removed, after a time that no request takes
// otherwise.
const (
	maxBars = 1000
	barred  = 5 * time.Minute
)

// margin is by how much a session ends before its lease can: clocks may run at
// different rates, and a process needs time to act.
func margin(ttl time.Duration) time.Duration {
	return max(ttl/10, 100*time.Millisecond)
}

// openSession returns the session, and opens one if there is none.
func (b *Backend) openSession(ctx context.Context) (*session, error) {
	for {
		b.mu.Lock()
		if b.closed {
			b.mu.Unlock()
			return nil, backend.ErrClosed
		}
		if s := b.session; s != nil {
			b.mu.Unlock()
			if s.check() == nil {
				return s, nil
			}
			continue // check took it away
		}
		opening := b.opening
		if opening == nil {
			b.opening = make(chan struct{})
			b.mu.Unlock()
			return b.openAlone(ctx)
		}
		b.mu.Unlock()
		select {
		case <-opening:
		case <-b.ctx.Done():
			return nil, remote.Why(b.ctx)
		case <-ctx.Done():
			return nil, remote.Why(ctx)
		}
	}
}

// openAlone opens a session while others wait on b.opening.
func (b *Backend) openAlone(ctx context.Context) (*session, error) {
	s, err := b.grant(ctx)
	b.mu.Lock()
	close(b.opening)
	b.opening = nil
	if err == nil && !b.closed {
		b.session = s
		b.mu.Unlock()
		s.start()
		return s, nil
	}
	b.mu.Unlock()
	if err == nil { // Close came first, and its client may be gone: the lease expires
		s.end(backend.ErrReleased)
		err = backend.ErrClosed
	}
	return nil, err
}

// grant asks for a lease. One whose answer is lost has no keys and expires.
func (b *Backend) grant(ctx context.Context) (*session, error) {
	ctx, stop := remote.Join(ctx, b.ctx)
	defer stop()
	var sent time.Time
	var r *clientv3.LeaseGrantResponse
	err := b.do(ctx, func(ctx context.Context) (err error) {
		sent = time.Now()
		r, err = b.client.Grant(ctx, int64(b.ttl/time.Second))
		return err
	})
	if err != nil {
		return nil, err
	}
	s := &session{b: b, id: r.ID, ttl: time.Duration(r.TTL) * time.Second, claims: make(map[*lease]struct{})}
	s.ctx, s.cancel = context.WithCancelCause(b.ctx)
	s.deadline = sent.Add(s.ttl - margin(s.ttl))
	return s, nil
}

// takeSlotLocked finds a number for a key. Numbers are used again: etcd remembers
// every key that there ever was until it is compacted, and to find out who is
// in line takes it the longer the more of them there are.
func (s *session) takeSlotLocked() uint64 {
	if n := len(s.slots); n > 0 {
		slot := s.slots[n-1]
		s.slots = s.slots[:n-1]
		return slot
	}
	s.used++
	return s.used
}

func (s *session) start() {
	s.b.mu.Lock()
	if s.err == nil {
		s.timer = time.AfterFunc(time.Until(s.deadline), func() { _ = s.check() })
	}
	s.b.mu.Unlock()
	s.b.spawn(s.keepAlive)
}

// check reports why the session has ended. It looks at the clock itself: a
// process that was stopped must not take a hold for valid in the moments before
// its timers run.
func (s *session) check() error {
	s.b.mu.Lock()
	err, late := s.err, time.Since(s.deadline)
	s.b.mu.Unlock()
	if err == nil && late >= 0 {
		s.end(s.silence())
		return s.check()
	}
	return err
}

// silence is the loss of a session that etcd did not renew in time.
func (s *session) silence() error {
	return backend.Lost("%w", backend.Unavailable(s.b.info.Service, fmt.Errorf("it did not renew the session for %v", s.ttl-margin(s.ttl))))
}

// end ends the session and all that is held in it: once, for the first reason.
func (s *session) end(err error) {
	b := s.b
	b.mu.Lock()
	if s.err != nil {
		b.mu.Unlock()
		return
	}
	s.err = err
	if b.session == s {
		b.session = nil
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	for l := range s.claims {
		l.endLocked(err)
		l.forgetLocked()
	}
	b.mu.Unlock()
	if errors.Is(err, backend.ErrReleased) {
		s.cancel(remote.Ended(backend.ErrClosed))
		return
	}
	s.cancel(remote.Ended(err))
	// It will not be renewed any more. Others need not wait for it to expire.
	b.spawn(func() {
		ctx, cancel := context.WithTimeout(b.ctx, s.ttl)
		defer cancel()
		_ = s.revoke(ctx)
	})
}

// revoke removes the lease and all its keys.
func (s *session) revoke(ctx context.Context) error {
	pause := remote.ShortestPause
	for {
		err := s.b.attempt(ctx, closeTimeout/4, func(ctx context.Context) error {
			_, err := s.b.client.Revoke(ctx, s.id)
			return err
		})
		if err == nil || errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return nil
		}
		if !temporary(err) || remote.Sleep(ctx, pause) != nil {
			return backend.Unavailable(s.b.info.Service, fmt.Errorf("the session was not given back and ends within %v: %v", s.ttl+late, err))
		}
		pause = min(2*pause, remote.LongestPause)
	}
}

// keepAlive renews the lease three times per ttl. After a failure it tries
// again at once, and each attempt leaves time for others.
func (s *session) keepAlive() {
	r := renewer{s: s}
	defer r.close()
	pause := s.ttl / 3
	for failed := 0; ; {
		if remote.Sleep(s.ctx, pause) != nil {
			return
		}
		sent := time.Now()
		ttl, err := r.renew()
		switch {
		case err == nil && ttl > 0:
			failed = 0
			s.renewed(sent, ttl)
			s.unbar()
			pause = time.Until(sent.Add(ttl / 3))
		case err == nil, errors.Is(err, rpctypes.ErrLeaseNotFound):
			s.end(backend.Lost("%w", errStale))
			return
		default:
			failed++
			pause = min(remote.ShortestPause<<min(failed-1, 4), s.ttl/20)
		}
	}
}

// renewed moves the deadline, which counts from when the renewal was sent. A
// deadline that has passed is not taken back.
func (s *session) renewed(sent time.Time, ttl time.Duration) {
	s.b.hear()
	if s.check() != nil {
		return
	}
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if d := sent.Add(ttl - margin(ttl)); s.err == nil && d.After(s.deadline) {
		s.deadline = d
		s.timer.Reset(time.Until(d))
	}
}

// renewer renews a lease through one stream for as long as that works: opening
// one costs a password check where authentication is switched on.
type renewer struct {
	s      *session
	stream etcdserverpb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc
}

func (r *renewer) renew() (time.Duration, error) {
	if r.stream == nil {
		if err := r.open(); err != nil {
			return 0, err
		}
	}
	watchdog := time.AfterFunc(r.patience(), r.cancel)
	defer watchdog.Stop()
	// Where sending fails, receiving tells why.
	_ = r.stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: int64(r.s.id)})
	answer, err := r.stream.Recv()
	if err != nil {
		r.close()
		return 0, rpctypes.Error(err)
	}
	return time.Duration(answer.TTL) * time.Second, nil
}

// patience is for how long to wait for an answer before another member is
// asked. Where there is only one, asking again would only add to its load.
func (r *renewer) patience() time.Duration {
	if len(r.s.b.client.Endpoints()) == 1 {
		return r.s.ttl
	}
	return r.s.ttl / 3
}

func (r *renewer) open() error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(r.s.ctx))
	watchdog := time.AfterFunc(r.patience(), cancel)
	defer watchdog.Stop()
	stream, err := etcdserverpb.NewLeaseClient(r.s.b.client.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		cancel()
		return rpctypes.Error(err)
	}
	r.stream, r.cancel = stream, cancel
	return nil
}

func (r *renewer) close() {
	if r.stream != nil {
		r.cancel()
		r.stream = nil
	}
}

// unbar removes bars where there are too many.
func (s *session) unbar() {
	s.b.mu.Lock()
	n := 0
	var ops []clientv3.Op
	for n < len(s.bars)-maxBars && n < 100 && time.Since(s.bars[n].since) > barred {
		ops = append(ops, on(deleteKey, s.bars[n].key))
		n++
	}
	s.b.mu.Unlock()
	if n == 0 {
		return
	}
	err := s.b.attempt(s.ctx, s.ttl/6, func(ctx context.Context) error {
		_, err := s.b.txn(ctx, nil, ops, nil)
		return err
	})
	if err == nil {
		s.b.mu.Lock()
		s.bars = s.bars[n:]
		s.b.mu.Unlock()
	}
}
