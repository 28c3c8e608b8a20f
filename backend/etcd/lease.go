package etcd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/remote"
)

// A lease is a claim, from before it is in line until its entry is gone.
type lease struct {
	b     *Backend
	s     *session
	at    place
	kind  backend.Kind
	slot  uint64
	name  string // of the key, in its line
	key   string
	since time.Time
	done  chan struct{}

	// Those are the claimant's alone until Acquire returns.
	token   uint64 // 0: no entry is known of; set under b.mu
	careful bool   // there are keys about that only look like claims
	doubt   bool   // a put went unanswered and may be carried out late

	// Guarded by b.mu.
	claim   backend.Claim
	held    bool
	err     error         // not nil once it has ended
	maybe   bool          // a removal went unanswered: the entry may be gone by our own hand
	stolen  bool          // the entry went without our doing
	gone    bool          // the entry is known to be gone
	changed chan struct{} // closed when the entry changes or goes

	follower *lease   // of this client's, waits for this one alone
	handed   *finding // what the one it followed found out for it
}

var _ backend.Lease = (*lease)(nil)

func (s *session) newLease(p backend.Place, c backend.Claim) (*lease, error) {
	b := s.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.err != nil {
		return nil, remote.Closing(s.err)
	}
	slot := s.takeSlotLocked()
	l := &lease{
		b: b, s: s, at: b.place(p), kind: p.Kind, claim: c, since: time.Now(),
		slot: slot, name: strconv.FormatInt(int64(s.id), 16) + "-" + strconv.FormatUint(slot, 16),
		done:    make(chan struct{}),
		changed: make(chan struct{}),
	}
	l.key = l.at.line + l.name
	s.claims[l] = struct{}{}
	b.claims[l.key] = l
	return l, nil
}

func (l *lease) queued(rev int64) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.token = uint64(rev)
}

// ID implements backend.Lease.
func (l *lease) ID() string { return newID(l.name, int64(l.token)) }

// Token implements backend.Lease. It is the create revision of the entry.
func (l *lease) Token() uint64 { return l.token }

// Done implements backend.Lease.
func (l *lease) Done() <-chan struct{} { return l.done }

// Deadline implements backend.Lease.
func (l *lease) Deadline() (time.Time, bool) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	return l.s.deadline, true
}

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

// forgetLocked drops a lease whose entry is gone.
func (l *lease) forgetLocked() {
	if l.gone {
		return
	}
	l.gone = true
	delete(l.s.claims, l)
	delete(l.b.claims, l.key)
	close(l.changed)
	if l.s.err == nil && !l.stolen && !l.maybe && !l.doubt {
		l.s.slots = append(l.s.slots, l.slot)
	}
}

// neighbour finds the claim of this client's that has the key, has l follow it,
// and returns what tells of its next change.
func (l *lease) neighbour(key string) (*lease, <-chan struct{}) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	n := l.b.claims[key]
	if n == nil || n.token == 0 || n.token > l.token {
		return nil, nil // a later claim may have the key by now
	}
	if n.follower == nil {
		n.follower = l
	}
	return n, n.changed
}

func (l *lease) unfollow(n *lease) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if n.follower == l {
		n.follower = nil
	}
}

// takeHanded returns what the claim ahead found out for l when it was removed.
// That it may be old by now does no harm: who is ahead only gets less.
func (l *lease) takeHanded() *finding {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	f := l.handed
	l.handed = nil
	return f
}

// handOver removes the entry and looks for the claim that follows it in one
// request, if this client has one that waits for nothing else.
func (l *lease) handOver(ctx context.Context, ops []clientv3.Op) (deleted int64, err error) {
	l.b.mu.Lock()
	next := l.follower
	n := len(ops)
	if next != nil {
		ops = append(ops, next.looking()...)
	}
	l.b.mu.Unlock()
	if len(ops) == 1 {
		r, err := l.b.client.Do(ctx, ops[0])
		if err != nil {
			return 0, err
		}
		return r.Del().Deleted, nil
	}
	r, err := l.b.txn(ctx, nil, ops, nil)
	if err != nil {
		return 0, err
	}
	if next != nil {
		l.b.mu.Lock()
		next.handed = newFinding(r, n)
		l.b.mu.Unlock()
	}
	return r.Responses[0].GetResponseDeleteRange().Deleted, nil
}

// vanished ends a lease whose entry is gone though nobody here removed it.
func (l *lease) vanished() error {
	err := backend.Lost("entry %s was removed by somebody else, or its session was revoked", l.key)
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if errors.Is(l.s.err, backend.ErrReleased) { // our own Close removed it
		l.forgetLocked()
		return backend.ErrClosed
	}
	l.stolen = true
	if l.err == nil {
		l.endLocked(err)
	}
	if l.doubt && !l.gone { // a put may still be on its way
		l.b.spawnLocked(l.removeLater)
	}
	l.forgetLocked()
	return err
}

// abandon removes what a failed Acquire may have left in line.
func (l *lease) abandon() {
	l.b.mu.Lock()
	l.endLocked(backend.ErrReleased)
	l.b.mu.Unlock()
	if l.token == 0 && !l.doubt {
		l.forget()
		return
	}
	removed := make(chan struct{})
	if !l.b.spawn(func() {
		defer close(removed)
		l.removeLater()
	}) {
		return
	}
	select {
	case <-removed:
	case <-time.After(remote.PatienceAfter):
	}
}

func (l *lease) forget() {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.forgetLocked()
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
		l.b.spawn(l.removeLater)
	}
	return err
}

// removeLater removes the entry however often etcd refuses. What it refuses for
// as long as a crash would take to be noticed goes with the whole session:
// others must not wait for it.
func (l *lease) removeLater() {
	start := l.b.clock()
	for {
		err := l.remove(l.s.ctx)
		if err == nil || errors.Is(err, backend.ErrLost) || l.s.ctx.Err() != nil {
			return
		}
		if l.b.clock()-start > l.b.info.Expiry {
			l.s.end(backend.Lost("entry %s could not be removed, so the session is given up: %w", l.key, err))
			return
		}
		if remote.Sleep(l.s.ctx, remote.LongestPause) != nil {
			return
		}
	}
}

func (l *lease) inLine() bool {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	return !l.gone
}

// remove takes the entry out of its line. It can be repeated: a key is used
// again only when all requests about it were answered.
func (l *lease) remove(ctx context.Context) error {
	var deleted int64
	err := l.changing(ctx, func(ctx context.Context) (err error) {
		deleted, err = l.handOver(ctx, l.removal())
		return err
	})
	switch {
	case errors.Is(err, errStale):
		return l.vanished()
	case err != nil:
		return err
	}
	l.removed()
	if deleted == 1 || l.byUs() || l.token == 0 {
		return nil
	}
	return l.vanished()
}

// removal is what removes the entry. It breaks each large Store that is in
// progress, and where a put may still be on its way it keeps that out.
func (l *lease) removal() []clientv3.Op {
	ops := []clientv3.Op{on(deleteKey, l.key)}
	if hasMarkers(l.kind) {
		ops = append(ops, below(deleteKey, l.at.closing()))
	}
	if l.doubt {
		ops = append(ops, clientv3.OpPut(l.b.withdrawn(l.name), "", clientv3.WithLease(l.s.id)))
	}
	return ops
}

// changing makes a request that may remove the entry, and notes when it is not
// known whether it did.
func (l *lease) changing(ctx context.Context, request func(context.Context) error) error {
	return l.b.do(ctx, func(ctx context.Context) error {
		err := request(ctx)
		if err != nil && temporary(err) {
			l.b.mu.Lock()
			l.maybe = true
			l.b.mu.Unlock()
		}
		return err
	})
}

func (l *lease) byUs() bool {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	return l.maybe
}

// removed notes that the entry is gone by our own hand.
func (l *lease) removed() {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.endLocked(backend.ErrReleased)
	l.forgetLocked()
	if l.doubt && l.s.err == nil {
		l.s.bars = append(l.s.bars, bar{key: l.b.withdrawn(l.name), since: time.Now()})
	}
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
	var r *clientv3.TxnResponse
	err := l.changing(ctx, func(ctx context.Context) (err error) {
		r, err = l.b.txn(ctx, []clientv3.Cmp{present(l.key, int64(l.token)), modified(l.at.register(), revision(v))},
			l.removal(), []clientv3.Op{l.own()})
		return err
	})
	switch {
	case errors.Is(err, errStale):
		return l.vanished()
	case err != nil:
		return err
	}
	if !r.Succeeded {
		if own := r.Responses[0].GetResponseRange().Kvs; len(own) == 1 {
			return fmt.Errorf("%w: the register is not at version %s any more", backend.ErrConflict, v)
		}
		if !l.byUs() {
			return l.vanished()
		}
	}
	l.removed()
	return nil
}

// Downgrade implements backend.Lease.
func (l *lease) Downgrade(ctx context.Context) error {
	if err := l.Err(); err != nil {
		return err
	}
	l.b.mu.Lock()
	claim := l.claim
	l.b.mu.Unlock()
	switch claim.Mode {
	case backend.Shared:
		return nil
	case backend.Exclusive:
		claim.Mode = backend.Shared
	default:
		return fmt.Errorf("%w: downgrade of a %s claim, want an exclusive one", backend.ErrInvalid, claim.Mode)
	}
	joined, stop := remote.Join(ctx, l.s.ctx)
	defer stop()
	sent, err := l.rewrite(joined, claim)
	if unanswered := joined.Err() != nil || errors.Is(err, backend.ErrUnavailable); sent && err != nil && unanswered {
		l.b.spawn(func() { l.rewriteLater(claim) }) // perhaps readers are in by now
	}
	return err
}

// rewriteLater does the same until it is done or the lease over.
func (l *lease) rewriteLater(claim backend.Claim) {
	for l.Err() == nil {
		if _, err := l.rewrite(l.s.ctx, claim); err == nil || remote.Sleep(l.s.ctx, remote.LongestPause) != nil {
			return
		}
	}
}

// rewrite changes the claim of an entry that is in line, and reports whether it
// has asked for that.
func (l *lease) rewrite(ctx context.Context, claim backend.Claim) (sent bool, err error) {
	var r *clientv3.TxnResponse
	err = l.b.do(ctx, func(ctx context.Context) (err error) {
		sent = true
		r, err = l.b.txn(ctx, []clientv3.Cmp{present(l.key, int64(l.token))},
			[]clientv3.Op{clientv3.OpPut(l.key, string(remote.Encode(claim, l.since, 0)), clientv3.WithLease(l.s.id))}, nil)
		return err
	})
	switch {
	case errors.Is(err, errStale):
		return sent, l.vanished()
	case err != nil:
		return sent, err
	case !r.Succeeded:
		if err := l.Err(); err != nil {
			return sent, err // released meanwhile
		}
		return sent, l.vanished()
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.claim = claim
	if !l.gone {
		close(l.changed)
		l.changed = make(chan struct{})
	}
	return sent, nil
}
