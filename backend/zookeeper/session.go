package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/remote"
)

// A session is what the claims of a term belong to and end with. A Backend that
// lost its session takes up another one when it is next asked for a claim.
type session struct {
	b    *Backend
	term *term

	ctx    context.Context // ends with the session
	cancel context.CancelCauseFunc

	// Guarded by b.mu.
	err    error // not nil once it has ended
	claims map[*lease]struct{}
}

// openSession returns the session, and takes one up if there is none.
func (b *Backend) openSession(ctx context.Context) (*session, error) {
	for {
		b.mu.Lock()
		s, closed := b.session, b.closed
		b.mu.Unlock()
		if closed {
			return nil, backend.ErrClosed
		}
		if s != nil {
			if s.check() == nil {
				return s, nil
			}
			continue // check took it away
		}
		t, err := b.awaitTerm(ctx)
		if err != nil {
			return nil, err
		}
		b.takeUp(t)
	}
}

// awaitTerm waits for a term that is not over.
func (b *Backend) awaitTerm(ctx context.Context) (*term, error) {
	begun := time.Now()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		t, changed := b.d.current()
		if t != nil && time.Now().Before(b.d.deadline(t)) {
			return t, nil
		}
		select {
		case <-changed:
		case <-again.C: // a term that was silent may be renewed
			if b.silent(begun) {
				return nil, b.noAnswer()
			}
		case <-b.ctx.Done():
			return nil, remote.Why(b.ctx)
		case <-ctx.Done():
			return nil, remote.Why(ctx)
		}
	}
}

func (b *Backend) takeUp(t *term) {
	s := &session{b: b, term: t, claims: make(map[*lease]struct{})}
	s.ctx, s.cancel = context.WithCancelCause(b.ctx)
	b.mu.Lock()
	ok := b.session == nil && !b.closed
	if ok {
		b.session = s
	}
	b.mu.Unlock()
	if !ok {
		s.cancel(nil)
		return
	}
	b.spawn(s.guard)
}

// guard ends the session in time.
func (s *session) guard() {
	timer := time.NewTimer(time.Until(s.b.d.deadline(s.term)))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			if s.check() != nil {
				return
			}
			timer.Reset(time.Until(s.b.d.deadline(s.term)))
		case <-s.term.over:
			_ = s.check()
			return
		case <-s.ctx.Done():
			return
		}
	}
}

// check reports why the session has ended. It looks at the clock itself: a
// process that was stopped must not take a hold for valid in the moments before
// its timers run.
func (s *session) check() error {
	s.b.mu.Lock()
	err := s.err
	s.b.mu.Unlock()
	if err != nil {
		return err
	}
	if time.Now().After(s.b.d.deadline(s.term)) {
		s.end(s.silence())
		return s.check()
	}
	select {
	case <-s.term.over:
		if s.b.d.sessionID() == s.term.id {
			s.end(s.silence())
		} else {
			s.end(backend.Lost("%w", errStale))
		}
		return s.check()
	default:
		return nil
	}
}

// silence is the loss of a session that ZooKeeper did not renew in time.
func (s *session) silence() error {
	t := s.term.timeout
	return backend.Lost("%w", backend.Unavailable(s.b.info.Service, fmt.Errorf("it did not renew the session for %v", t-margin(t))))
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
	var left []*lease
	for l := range s.claims {
		l.endLocked(err)
		left = append(left, l)
	}
	b.mu.Unlock()
	if errors.Is(err, backend.ErrReleased) {
		s.cancel(remote.Ended(backend.ErrClosed))
		return
	}
	s.cancel(remote.Ended(err))
	// ZooKeeper may go on with the session. What nobody owns has to go.
	for _, l := range left {
		b.spawn(l.sweep)
	}
}

// expired ends a session that ZooKeeper says is over.
func (s *session) expired() { s.end(backend.Lost("%w", errStale)) }
