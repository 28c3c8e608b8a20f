package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/remote"
)

// A lease is a claim, from before it is in line until its entry is gone.
type lease struct {
	b      *Backend
	s      *session
	at     place
	kind   backend.Kind
	guid   string
	prefix string // of the node's name, before its number
	since  time.Time
	done   chan struct{}
	id     string // set before Acquire returns

	// Guarded by b.mu.
	token    uint64
	name     string // of the node; empty: none is known of
	claim    backend.Claim
	err      error         // not nil once it has ended
	creating chan struct{} // closed when the last create has returned
	doubt    bool          // a create went unanswered
	underway int           // removals that are not answered yet
	maybe    bool          // a removal was made or went unanswered: the node may be gone by our own hand
	gone     bool          // the node is known to be gone
	changed  chan struct{} // closed when the node changes or goes
}

var _ backend.Lease = (*lease)(nil)

func (s *session) newLease(p backend.Place, c backend.Claim) (*lease, error) {
	b := s.b
	l := &lease{
		b: b, s: s, at: b.place(p), kind: p.Kind, claim: c, since: time.Now(), guid: newGUID(),
		done: make(chan struct{}), changed: make(chan struct{}),
	}
	l.prefix = b.nodeName(l.guid, p.Kind, c)
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.err != nil {
		return nil, remote.Closing(s.err)
	}
	s.claims[l] = struct{}{}
	return l, nil
}

// setNameLocked notes the node.
func (l *lease) setNameLocked(name string) {
	if l.gone {
		return
	}
	l.name = name
	if l.id == "" {
		n, _ := parseNode(name)
		l.id = n.id()
	}
	l.b.claims[l.at.line+"/"+name] = l
}

func (l *lease) setName(name string) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.setNameLocked(name)
}

func (l *lease) path() string {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	return l.at.line + "/" + l.name
}

func (l *lease) created() bool {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	return l.name != ""
}

// ID implements backend.Lease.
func (l *lease) ID() string { return l.id }

// Token implements backend.Lease. It is the transaction that put the claim in
// line.
func (l *lease) Token() uint64 { return l.token }

// Done implements backend.Lease.
func (l *lease) Done() <-chan struct{} { return l.done }

// Deadline implements backend.Lease.
func (l *lease) Deadline() (time.Time, bool) { return l.b.d.deadline(l.s.term), true }

// Err implements backend.Lease.
func (l *lease) Err() error {
	_ = l.s.check()
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	return l.err
}

// endLocked ends the lease for its owner.
func (l *lease) endLocked(err error) {
	if l.err == nil {
		l.err = err
		close(l.done)
	}
}

// forgetLocked drops a lease whose node is gone.
func (l *lease) forgetLocked() {
	if l.gone {
		return
	}
	l.gone = true
	delete(l.s.claims, l)
	delete(l.b.claims, l.at.line+"/"+l.name)
	close(l.changed)
}

func (l *lease) forget() {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.endLocked(backend.ErrReleased)
	l.forgetLocked()
}

// neighbour finds the claim of this client's that has the node, and what tells
// of its next change.
func (l *lease) neighbour(path string) (*lease, <-chan struct{}) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	n := l.b.claims[path]
	if n == nil {
		return nil, nil
	}
	return n, n.changed
}

// vanished ends a lease whose node is gone though nobody here removed it.
func (l *lease) vanished() error {
	if err := l.s.check(); err != nil {
		l.forget()
		return remote.Closing(err)
	}
	err := backend.Lost("node %s was removed by somebody else", l.path())
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.endLocked(err)
	l.forgetLocked()
	return err
}

// abandon removes what a failed Acquire may have left in line.
func (l *lease) abandon() {
	l.b.mu.Lock()
	l.endLocked(backend.ErrReleased)
	nothing := l.creating == nil
	l.b.mu.Unlock()
	if nothing {
		l.forget()
		return
	}
	removed := make(chan struct{})
	if !l.b.spawn(func() {
		defer close(removed)
		l.sweep()
	}) {
		return
	}
	timer := time.NewTimer(remote.PatienceAfter)
	defer timer.Stop()
	select {
	case <-removed:
	case <-timer.C:
	}
}

// sweep removes the node of a lease that nobody owns any more, for as long as
// its session may live and the Backend does.
func (l *lease) sweep() {
	l.b.mu.Lock()
	creating := l.creating
	l.b.mu.Unlock()
	if creating != nil {
		select {
		case <-creating:
		case <-l.b.ctx.Done():
			return
		}
	}
	for pause := remote.ShortestPause; ; pause = min(2*pause, remote.LongestPause) {
		if id := l.b.d.sessionID(); id != 0 && id != l.s.term.id && !l.created() {
			break
		}
		err := l.remove(l.b.ctx)
		if err == nil || errors.Is(err, backend.ErrLost) || errors.Is(err, errStale) {
			break
		}
		if id := l.b.d.sessionID(); id != 0 && id != l.s.term.id {
			break
		}
		if remote.Sleep(l.b.ctx, pause) != nil {
			return
		}
	}
	l.forget()
}

// Release implements backend.Lease.
func (l *lease) Release(ctx context.Context) error {
	_ = l.s.check()
	l.b.mu.Lock()
	if err := l.err; err != nil {
		l.b.mu.Unlock()
		if errors.Is(err, backend.ErrReleased) {
			return nil
		}
		return err
	}
	l.endLocked(backend.ErrReleased)
	l.b.mu.Unlock()
	joined, stop := remote.Join(ctx, l.s.ctx)
	defer stop()
	err := l.remove(joined)
	if err != nil && l.inLine() {
		l.b.spawn(l.sweep)
	}
	return err
}

func (l *lease) inLine() bool {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	return !l.gone
}

// remove takes the node out of its line. It can be repeated.
func (l *lease) remove(ctx context.Context) error {
	l.b.mu.Lock()
	name, doubt := l.name, l.doubt
	l.b.mu.Unlock()
	if name == "" || doubt {
		_, found, err := l.find(ctx)
		if err != nil {
			return err
		}
		if found == "" {
			l.forget()
			return nil
		}
		l.setName(found)
	}
	path := l.path()
	_, err := do(ctx, l.b, path, func() (struct{}, error) {
		l.removing(1)
		err := l.b.conn.Delete(path, -1)
		l.note(err)
		return struct{}{}, err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		if l.byUs() {
			l.forget()
			return nil
		}
		return l.vanishedAtRelease()
	case errors.Is(err, errStale):
		l.s.expired()
		return l.vanishedAtRelease()
	case err != nil:
		return err
	}
	l.forget()
	return nil
}

// vanishedAtRelease is vanished for a lease that has ended for its owner.
func (l *lease) vanishedAtRelease() error {
	path := l.path()
	serr := l.s.check()
	l.forget()
	if serr != nil {
		return remote.Closing(serr)
	}
	return backend.Lost("node %s was removed by somebody else", path)
}

// find looks for the node by its GUID, after all that was asked for before. An
// empty name means that there is none.
func (l *lease) find(ctx context.Context) (line []node, name string, err error) {
	line, err = l.b.freshList(ctx, l.at)
	for _, n := range line {
		if strings.HasPrefix(n.name, l.prefix) {
			return line, n.name, err
		}
	}
	return line, "", err
}

// removing counts the requests on their way that may remove the node. Their
// callers may be gone when they are answered.
func (l *lease) removing(n int) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.underway += n
}

// note ends that, and remembers whether the request did or may have done it.
func (l *lease) note(err error) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.underway--
	if err == nil || temporary(err) {
		l.maybe = true
	}
}

func (l *lease) byUs() bool {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	return l.maybe || l.underway > 0
}

// Downgrade implements backend.Lease. The node is replaced by one with its own
// number, in one step. It is changed before, so that those who watch it know
// that its end is not a release.
func (l *lease) Downgrade(ctx context.Context) error {
	if err := l.Err(); err != nil {
		return err
	}
	l.b.mu.Lock()
	was, claim, name := l.claim, l.claim, l.name
	l.b.mu.Unlock()
	switch claim.Mode {
	case backend.Shared:
		return nil
	case backend.Exclusive:
		claim.Mode = backend.Shared
	default:
		return fmt.Errorf("%w: downgrade of a %s claim, want an exclusive one", backend.ErrInvalid, claim.Mode)
	}
	ctx, stop := remote.Join(ctx, l.s.ctx)
	defer stop()
	n, _ := parseNode(name)
	from := l.at.line + "/" + name
	reader := l.b.nodeName(l.guid, l.kind, claim) + n.suffix
	to := l.at.line + "/" + reader
	ops := []any{
		&zk.SetDataRequest{Path: from, Data: remote.Encode(was, l.since, 0), Version: -1},
		&zk.DeleteRequest{Path: from, Version: -1},
		&zk.CreateRequest{Path: to, Data: remote.Encode(claim, l.since, l.token), Acl: l.b.acl, Flags: zk.FlagEphemeral},
	}
	_, err := do(ctx, l.b, from, func() (struct{}, error) {
		err := l.b.multi(ops)
		if errors.Is(err, zk.ErrNoNode) {
			_, _, err = l.b.conn.Get(to) // done by an earlier try?
		}
		return struct{}{}, err
	})
	switch {
	case errors.Is(err, errStale):
		l.s.expired()
		return l.vanished()
	case errors.Is(err, zk.ErrNoNode):
		if err := l.Err(); err != nil {
			return err // released meanwhile
		}
		return l.vanished()
	case err != nil:
		return err
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if l.gone {
		return nil
	}
	delete(l.b.claims, from)
	l.claim, l.prefix = claim, l.b.nodeName(l.guid, l.kind, claim)
	l.setNameLocked(reader)
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

// Withdraw implements backend.Lease.
func (l *lease) Withdraw(ctx context.Context, v backend.Version) error {
	if err := l.Err(); errors.Is(err, backend.ErrReleased) {
		return nil
	} else if err != nil {
		return err
	}
	ctx, stop := remote.Join(ctx, l.s.ctx)
	defer stop()
	path := l.path()
	ops := append(l.at.unchanged(v, l.b.acl), &zk.DeleteRequest{Path: path, Version: -1})
	for {
		_, err := do(ctx, l.b, path, func() (struct{}, error) {
			l.removing(1)
			err := l.b.multi(ops)
			l.note(err)
			return struct{}{}, err
		})
		switch {
		case err == nil:
			l.forget()
			return nil
		case errors.Is(err, errStale):
			l.s.expired()
			return l.vanished()
		case !conflicting(err):
			return err
		}
		// Which of the conditions was it?
		there, err := l.b.exists(ctx, path)
		if err != nil {
			return err
		}
		if !there {
			if l.byUs() {
				l.forget()
				return nil
			}
			return l.vanished()
		}
		now, _, err := l.b.load(ctx, l.at)
		if err != nil {
			return err
		}
		if now.Version != v {
			return fmt.Errorf("%w: the register is not at version %s any more", backend.ErrConflict, v)
		}
		if err := l.b.makeRegister(ctx, l.at); err != nil {
			return err
		}
	}
}
