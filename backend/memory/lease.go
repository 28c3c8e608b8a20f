package memory

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/gocoord/coord/backend"
)

// A lease is an entry in a line, and the proof of its admission.
type lease struct {
	backend *Backend
	line    *line
	token   uint64
	since   int64 // Unix time in nanoseconds
	claim   backend.Claim

	// The shard guards the rest.
	links      links  // in line.all
	classLinks links  // in line.exclusives or line.permits
	id         string // made when somebody asks for it
	state      state
	refused    bool          // the wait has failed; set before ready is closed
	err        error         // once ended, and then for good
	done       chan struct{} // made when somebody asks for it
	ready      chan struct{} // closed when the wait is over; nil if there was none
	woken      *lease        // next in a chain of leases to wake

	hosted *Entry // whose lease it is, where a Host entered it
}

type state uint8

const (
	waiting state = iota
	held
	ended
)

func newLease(b *Backend, ln *line, c backend.Claim, e *Entry) *lease {
	c = c.Clone()
	var l *lease
	if e != nil {
		l = &e.lease
	} else {
		l = new(lease)
	}
	*l = lease{backend: b, line: ln, token: ln.shard.tick(), since: time.Now().UnixNano(), claim: c, hosted: e}
	return l
}

// orNil keeps a nil lease from becoming a non-nil interface.
func (l *lease) orNil() backend.Lease {
	if l == nil {
		return nil
	}
	return l
}

func id(token uint64) string { return strconv.FormatUint(token, 36) }

func parseID(s string) (token uint64, ok bool) {
	token, err := strconv.ParseUint(s, 36, 64)
	return token, err == nil && id(token) == s
}

func (l *lease) ID() string                       { return id(l.token) }
func (l *lease) Token() uint64                    { return l.token }
func (l *lease) Deadline() (t time.Time, ok bool) { return t, false }

func (l *lease) Done() <-chan struct{} {
	mu := &l.line.shard.mu
	mu.Lock()
	defer mu.Unlock()
	return l.gone()
}

// gone returns a channel that is closed once l is out of line.
func (l *lease) gone() chan struct{} {
	if l.done == nil {
		l.done = make(chan struct{})
		if l.state == ended {
			close(l.done)
		}
	}
	return l.done
}

func (l *lease) Err() error {
	mu := &l.line.shard.mu
	mu.Lock()
	defer mu.Unlock()
	return l.err
}

func (l *lease) Release(ctx context.Context) error {
	if f := l.backend.trouble(OpRelease, l.place()); f != nil {
		return f.around(ctx, func() error { return l.remove(backend.ErrReleased) }, func() { _ = l.remove(backend.ErrReleased) })
	}
	return l.remove(backend.ErrReleased)
}

// remove ends the lease. It is nil for one that was released before.
func (l *lease) remove(why error) error {
	mu := &l.line.shard.mu
	mu.Lock()
	if l.state == ended {
		defer mu.Unlock()
		return l.lossLocked()
	}
	woken := l.endLocked(why, why, nil)
	mu.Unlock()
	wake(woken)
	return nil
}

func (l *lease) lossLocked() error {
	if l.err == backend.ErrReleased {
		return nil
	}
	return l.err
}

// endLocked takes l out of line. A holder sees err, one that waits gets refusal.
// It returns whom to wake once the lock is free.
func (l *lease) endLocked(err, refusal error, woken *lease) *lease {
	ln := l.line
	if l.hosted != nil {
		ln.shard.recorder.Leave(l.hosted)
	}
	woken = ln.drop(l, woken)
	if l.state == waiting {
		l.refused, err = true, refusal
		woken = l.wakeAfter(woken)
	}
	l.state, l.err = ended, err
	if l.done != nil {
		close(l.done)
	}
	ln.changed()
	ln.settle()
	return woken
}

// wakeAfter puts l at the head of a chain of leases to wake.
func (l *lease) wakeAfter(woken *lease) *lease {
	l.woken = woken
	return l
}

// wake tells those whose wait is over, outside of the lock.
func wake(l *lease) {
	for l != nil {
		next := l.woken
		l.woken = nil
		switch {
		case l.hosted == nil:
			close(l.ready)
		case !l.refused:
			l.hosted.admitted()
		}
		l = next
	}
}

func (l *lease) Downgrade(ctx context.Context) error {
	if err := backend.ContextError(ctx); err != nil {
		return err
	}
	if f := l.backend.trouble(OpDowngrade, l.place()); f != nil {
		return f.around(ctx, l.downgrade, nil)
	}
	return l.downgrade()
}

func (l *lease) downgrade() error {
	mu := &l.line.shard.mu
	mu.Lock()
	if l.state == ended || l.claim.Mode != backend.Exclusive {
		defer mu.Unlock()
		if l.err == nil && l.claim.Mode != backend.Shared {
			return fmt.Errorf("%w: a claim that is %s cannot be downgraded", backend.ErrInvalid, l.claim.Mode)
		}
		return l.err
	}
	if l.hosted != nil {
		l.line.shard.recorder.Downgrade(l.hosted)
	}
	woken := l.line.downgrade(l)
	l.line.changed()
	mu.Unlock()
	wake(woken)
	return nil
}

func (l *lease) Withdraw(ctx context.Context, v backend.Version) error {
	if err := backend.ContextError(ctx); err != nil {
		return err
	}
	if f := l.backend.trouble(OpWithdraw, l.place()); f != nil {
		return f.around(ctx, func() error { return l.withdraw(v) }, nil)
	}
	return l.withdraw(v)
}

func (l *lease) withdraw(v backend.Version) error {
	mu := &l.line.shard.mu
	mu.Lock()
	if l.state == ended {
		defer mu.Unlock()
		return l.lossLocked()
	}
	if version(l.line.registerVersion) != v {
		mu.Unlock()
		return backend.ErrConflict
	}
	woken := l.endLocked(backend.ErrReleased, backend.ErrReleased, nil)
	mu.Unlock()
	wake(woken)
	return nil
}

func (l *lease) place() backend.Place {
	return backend.Place{Kind: l.line.key.kind, Name: l.line.key.name}
}

func (l *lease) entry() backend.Entry {
	if l.id == "" {
		l.id = id(l.token)
	}
	return backend.Entry{ID: l.id, Token: l.token, Claim: l.claim.Clone(), Since: time.Unix(0, l.since), Admitted: l.state == held}
}
