package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/remote"
)

// Acquire implements backend.Backend. Uncontended, it makes two requests, of
// which the second does not wait for the answer to the first.
func (b *Backend) Acquire(ctx context.Context, p backend.Place, c backend.Claim) (backend.Lease, error) {
	return remote.Acquire(ctx, p, c, b.openSession, func(s *session) (*lease, error) { return s.acquire(ctx, p, c) })
}

func (s *session) acquire(ctx context.Context, p backend.Place, c backend.Claim) (*lease, error) {
	l, err := s.newLease(p, c)
	if err != nil {
		return nil, err
	}
	joined, stop := remote.Join(ctx, s.ctx)
	defer stop()
	err = l.await(joined)
	if err == nil {
		err = l.admit(ctx)
	}
	if err == nil {
		return l, nil
	}
	l.abandon()
	if ended := ctx.Err(); ended != nil {
		return nil, remote.Why(ctx)
	}
	if l.unused() {
		err = fmt.Errorf("%w: %w", remote.ErrUnused, err)
	}
	return nil, err
}

// await puts the claim in line and returns when nobody is ahead.
func (l *lease) await(ctx context.Context) error {
	try := l.claim.NoWait && l.claim.Mode != backend.Presence
	if try {
		if err := l.look(ctx); err != nil {
			return err
		}
	}
	line, err := l.enter(ctx)
	if err != nil || l.claim.Mode == backend.Presence {
		return err
	}
	for {
		v, err := l.judge(line)
		if err != nil || len(v.ahead) == 0 {
			return err
		}
		if try {
			return backend.ErrBusy
		}
		again, err := l.wait(ctx, v)
		if err != nil || !again {
			return err
		}
		if line, err = l.b.list(ctx, l.at); err != nil {
			return err
		}
	}
}

// look answers ErrBusy if the claim could not be admitted now. Nothing is left
// behind by that, so there is nothing to clean up.
func (l *lease) look(ctx context.Context) error {
	line, err := l.b.freshList(ctx, l.at)
	if err != nil {
		return err
	}
	entries := make([]backend.Entry, 0, len(line)+1)
	for _, n := range line {
		entries = append(entries, backend.Entry{ID: n.id(), Claim: n.claim})
	}
	entries = append(entries, backend.Entry{Claim: l.claim})
	if err := backend.Mismatch(entries, len(line)); err != nil {
		return err
	}
	if len(backend.Blockers(entries, len(line))) > 0 {
		return backend.ErrBusy
	}
	return nil
}

// unused reports whether the session turned out to be gone before the claim was
// put in line.
func (l *lease) unused() bool {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	return l.token == 0 && errors.Is(l.s.err, errStale)
}

// enter puts the claim in line and lists it. The listing is sent as soon as the
// create is.
func (l *lease) enter(ctx context.Context) ([]node, error) {
	prefix := l.at.line + "/" + l.prefix
	data := remote.Encode(l.claim, l.since, 0)
	r := l.b.newRetry()
	for {
		if ended := remote.Why(ctx); ended != nil {
			return nil, ended
		}
		follow := l.b.d.expect(prefix)
		creating := l.create(prefix, data)
		var listing <-chan result[[]string]
		var created result[string]
		select {
		case <-follow.sent:
			if l.claim.Mode != backend.Presence {
				listing = l.b.children(l.at.line)
			}
			select {
			case created = <-creating:
			case <-ctx.Done():
				l.b.d.expected(prefix, follow)
				return nil, remote.Why(ctx)
			}
		case created = <-creating:
		case <-ctx.Done():
			l.b.d.expected(prefix, follow)
			return nil, remote.Why(ctx)
		}
		zxid := l.b.d.expected(prefix, follow)
		switch err := created.err; {
		case err == nil:
			if err := l.entered(ctx, created.value, zxid); err != nil {
				return nil, err
			}
			return l.listed(ctx, listing)
		case errors.Is(err, zk.ErrNoNode):
			if err := l.b.makePlace(ctx, l.at); err != nil {
				return nil, err
			}
		case errors.Is(err, zk.ErrSessionExpired):
			l.s.expired()
			return nil, l.s.check()
		case temporary(err):
			if err := r.pause(ctx, err); err != nil {
				return nil, err
			}
			if line, found, err := l.recover(ctx); err != nil || found {
				return line, err
			}
		default:
			return nil, l.b.judge(prefix, err)
		}
	}
}

// create makes the node. Whether it did is known only when it returns, which is
// noted however long that takes.
func (l *lease) create(prefix string, data []byte) <-chan result[string] {
	done := make(chan struct{})
	l.b.mu.Lock()
	l.creating = done
	l.b.mu.Unlock()
	ch := make(chan result[string], 1)
	if !l.b.spawn(func() {
		defer close(done)
		path, err := l.b.conn.Create(prefix, data, zk.FlagEphemeralSequential, l.b.acl)
		l.b.mu.Lock()
		if err == nil {
			l.setNameLocked(path[len(l.at.line)+1:])
		} else if temporary(err) || errors.Is(err, zk.ErrSessionExpired) {
			l.doubt = true
		}
		l.b.mu.Unlock()
		ch <- result[string]{path, err}
	}) {
		close(done)
		ch <- result[string]{err: backend.ErrClosed}
	}
	return ch
}

// entered notes that there is a node, and makes sure that it belongs to the
// session: the client opens another one by itself, and creates in that.
func (l *lease) entered(ctx context.Context, path string, zxid int64) error {
	if zxid == 0 {
		stat, err := l.b.stat(ctx, path)
		if errors.Is(err, zk.ErrNoNode) {
			return l.vanished()
		}
		if err != nil {
			return err
		}
		zxid = stat.Czxid
	}
	if err := l.s.check(); err != nil {
		return remote.Closing(err)
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.token = uint64(zxid)
	return nil
}

// listed is the line, which has the claim in it. A listing that was sent before
// the create is asked for again.
func (l *lease) listed(ctx context.Context, listing <-chan result[[]string]) ([]node, error) {
	if l.claim.Mode == backend.Presence {
		return nil, nil
	}
	if listing != nil {
		children, err := await(ctx, listing)
		if err == nil {
			if line := inLine(children); l.index(line) >= 0 {
				return line, nil
			}
		} else if ended := remote.Why(ctx); ended != nil {
			return nil, ended
		}
	}
	return l.b.list(ctx, l.at)
}

// recover looks for the node of a create that was not answered.
func (l *lease) recover(ctx context.Context) (line []node, found bool, err error) {
	line, name, err := l.find(ctx)
	if err == nil && name == "" {
		err = l.s.check()
	}
	if err != nil || name == "" {
		return nil, false, err
	}
	path := l.at.line + "/" + name
	stat, err := l.b.stat(ctx, path)
	if errors.Is(err, zk.ErrNoNode) || err == nil && stat.EphemeralOwner != l.s.term.id {
		l.s.expired() // the node of a session that has ended is nobody's
		return nil, false, l.s.check()
	}
	if err != nil {
		return nil, false, err
	}
	l.setName(name)
	return line, true, l.entered(ctx, path, stat.Czxid)
}

// A view says whom a claim waits for.
type view struct {
	ahead []node // none means that the claim is admitted
	alone bool   // nobody else was ahead
	epoch uint64 // of the connection at that time
}

func (l *lease) index(line []node) int {
	for i, n := range line {
		if n.name == l.name {
			return i
		}
	}
	return -1
}

// judge applies the admission rule. A claim that is not in line is admitted
// nowhere.
func (l *lease) judge(line []node) (view, error) {
	me := l.index(line)
	if me < 0 {
		return view{}, l.vanished()
	}
	entries := make([]backend.Entry, me+1)
	byID := make(map[string]node, me)
	for i, n := range line[:me] {
		entries[i] = backend.Entry{ID: n.id(), Claim: n.claim}
		byID[n.id()] = n
	}
	entries[me] = backend.Entry{Claim: l.claim}
	if err := backend.Mismatch(entries, me); err != nil {
		return view{}, err
	}
	v := view{epoch: l.b.d.connections(), alone: me == 1}
	for _, e := range backend.Blockers(entries, me) {
		v.ahead = append(v.ahead, byID[e.ID])
	}
	return v, nil
}

// wait returns when it is time to look again, or false if that need not be: the
// only one ahead has left.
func (l *lease) wait(ctx context.Context, v view) (again bool, err error) {
	if len(v.ahead) > 1 {
		var paths []string
		for _, n := range v.ahead {
			paths = append(paths, l.at.line+"/"+n.name)
		}
		return true, l.b.awaitAny(ctx, paths)
	}
	n := v.ahead[0]
	path := l.at.line + "/" + n.name
	// What this client itself has in line tells without a watch.
	if mine, changed := l.neighbour(path); mine != nil {
		select {
		case <-changed:
			return true, nil
		case <-ctx.Done():
			return false, remote.Why(ctx)
		}
	}
	w, exists, err := l.b.watches.watch(ctx, watchData, path)
	if err != nil || !exists {
		return true, err
	}
	ev, err := l.b.fired(ctx, w)
	if err != nil {
		return false, err
	}
	// A downgrade changes the node before it replaces it, so a node that was
	// removed is not followed by another in its place. That is known of our own
	// nodes, and while the connection lasts: after that ZooKeeper tells only
	// that a node is gone.
	certain := v.alone && n.ours && ev.Type == zk.EventNodeDeleted && w.epoch == v.epoch && l.b.d.connections() == v.epoch
	return !certain, nil
}

// admit makes the claim a hold, unless ctx or the session has ended.
func (l *lease) admit(ctx context.Context) error {
	if err := l.s.check(); err != nil {
		return remote.Closing(err)
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if err := remote.Why(ctx); err != nil {
		return err
	}
	if l.err != nil {
		return remote.Closing(l.err)
	}
	return nil
}
