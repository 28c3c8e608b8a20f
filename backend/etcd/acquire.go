package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/remote"
)

// Acquire implements backend.Backend. Uncontended, it makes one request.
func (b *Backend) Acquire(ctx context.Context, p backend.Place, c backend.Claim) (backend.Lease, error) {
	return remote.Acquire(ctx, p, c, b.openSession, func(s *session) (*lease, error) { return s.acquire(ctx, p, c) })
}

func (s *session) acquire(ctx context.Context, p backend.Place, c backend.Claim) (*lease, error) {
	l, err := s.newLease(p, c)
	if err != nil {
		return nil, err
	}
	v, err := l.enter(ctx)
	if err == nil && len(v.ahead) > 0 {
		err = l.stay(ctx, v)
	}
	if err == nil {
		err = l.admit(ctx)
	}
	if err != nil {
		l.abandon()
		if l.unused() {
			err = fmt.Errorf("%w: %w", remote.ErrUnused, err)
		}
		return nil, err
	}
	return l, nil
}

// stay waits in line until nobody is ahead.
func (l *lease) stay(ctx context.Context, v view) error {
	ctx, stop := remote.Join(ctx, l.s.ctx)
	defer stop()
	for len(v.ahead) > 0 {
		err := l.wait(ctx, v)
		if err == nil {
			v, err = l.look(ctx)
		}
		if err != nil {
			return err
		}
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

// A view says whom a claim waits for.
type view struct {
	rev   int64    // of the store, when this was seen
	ahead []string // keys; none means that the claim is admitted
}

// enter puts the claim in line. Only the answer to that tells whether there is
// an entry to remove, so the request outlives ctx by a moment.
func (l *lease) enter(ctx context.Context) (view, error) {
	put := l.queue
	if l.claim.NoWait && l.claim.Mode != backend.Presence {
		put = l.try
	}
	live := remote.Outlive(ctx, l.s.ctx)
	if ctx.Done() == nil {
		return put(ctx, live)
	}
	live, cancel := context.WithCancel(live)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(remote.PatienceAfter, cancel) })
	defer stop()
	v, err := put(ctx, live)
	if err != nil && ctx.Err() != nil {
		err = remote.Why(ctx)
	}
	return v, err
}

// queue appends the claim to the line, and reads in the same transaction who
// was there before. The key stays the same over repeats of the request.
func (l *lease) queue(ctx, live context.Context) (view, error) {
	then := []clientv3.Op{l.put()}
	if l.claim.Mode != backend.Presence {
		then = []clientv3.Op{l.ahead(0), then[0]}
	}
	r, err := l.enqueue(ctx, live, []clientv3.Cmp{absent(l.key), l.unbarred()}, then, []clientv3.Op{l.own()})
	if err != nil {
		return view{}, err
	}
	if !r.Succeeded { // an earlier try did
		if found := r.Responses[0].GetResponseRange().Kvs; len(found) == 1 {
			l.queued(found[0].CreateRevision)
			if l.claim.Mode == backend.Presence {
				return view{}, nil
			}
			return l.look(live)
		}
		return view{}, l.vanished()
	}
	l.queued(r.Header.Revision)
	if l.claim.Mode == backend.Presence {
		return view{rev: r.Header.Revision}, nil
	}
	return l.judge(live, r.Header.Revision, r.Responses[0].GetResponseRange().Kvs)
}

// try appends the claim to the line if it is admitted there at once, and
// otherwise changes nothing. The line may have lost entries since it was
// looked at, but it must not have got others.
func (l *lease) try(ctx, live context.Context) (view, error) {
	l.careful = true
	unchanged := absent(l.at.line).WithPrefix()
	for {
		r, err := l.enqueue(ctx, live, []clientv3.Cmp{absent(l.key), l.unbarred(), unchanged},
			[]clientv3.Op{l.put()}, []clientv3.Op{l.own(), l.ahead(0)})
		if err != nil {
			return view{}, err
		}
		if r.Succeeded {
			l.queued(r.Header.Revision)
			return view{}, nil
		}
		if found := r.Responses[0].GetResponseRange().Kvs; len(found) == 1 {
			l.queued(found[0].CreateRevision) // an earlier try did
			return view{}, nil
		}
		v, err := l.judge(live, r.Header.Revision, r.Responses[1].GetResponseRange().Kvs)
		if err != nil {
			return view{}, err
		}
		if len(v.ahead) > 0 {
			return view{}, backend.ErrBusy
		}
		unchanged = clientv3.Compare(clientv3.ModRevision(l.at.line), "<", v.rev+1).WithPrefix()
	}
}

// enqueue makes the transaction that puts the claim in line.
func (l *lease) enqueue(ctx, live context.Context, conditions []clientv3.Cmp, then, otherwise []clientv3.Op) (r *clientv3.TxnResponse, err error) {
	err = l.b.repeat(ctx, live, func(ctx context.Context) (err error) {
		r, err = l.b.txn(ctx, conditions, then, otherwise)
		if err != nil && temporary(err) {
			l.doubt = true
		}
		return err
	})
	if errors.Is(err, errStale) {
		l.s.end(backend.Lost("%w", err))
	}
	return r, err
}

// own reads the claim's own entry.
func (l *lease) own() clientv3.Op { return on(getKey, l.key) }

// unbarred is the condition under which the entry may still be put.
func (l *lease) unbarred() clientv3.Cmp { return absent(l.b.withdrawn(l.name)) }

func (l *lease) put() clientv3.Op {
	return clientv3.OpPut(l.key, string(remote.Encode(l.claim, l.since, 0)), clientv3.WithLease(l.s.id))
}

// ahead reads who is in line, before the given create revision unless that is
// 0. For an Exclusive claim the last one is enough, and its key: etcd 3.7 finds
// that without reading the others. It comes without its lease.
func (l *lease) ahead(before int64) clientv3.Op {
	op := getLine
	if l.claim.Mode == backend.Exclusive {
		op = getLastKey
		if l.careful {
			op = getLast
		}
	}
	op = below(op, l.at.line)
	if before != 0 {
		clientv3.WithMaxCreateRev(before - 1)(&op)
	}
	return op
}

// judge applies the admission rule to those ahead, as ahead found them.
func (l *lease) judge(ctx context.Context, rev int64, kvs []*mvccpb.KeyValue) (view, error) {
	if l.claim.Mode == backend.Exclusive {
		return l.last(ctx, rev, kvs)
	}
	v := view{rev: rev}
	kvs = inLine(kvs)
	line := make([]backend.Entry, len(kvs)+1)
	keys := make(map[string]string, len(kvs))
	for i, kv := range kvs {
		line[i] = decode(l.at.line, kv)
		keys[line[i].ID] = string(kv.Key)
	}
	me := len(kvs)
	line[me] = backend.Entry{Claim: l.claim}
	if err := backend.Mismatch(line, me); err != nil {
		return v, err
	}
	for _, e := range backend.Blockers(line, me) {
		v.ahead = append(v.ahead, keys[e.ID])
	}
	return v, nil
}

// last is judge for an Exclusive claim, which waits for the last one ahead. If
// that may be a key that is no claim, it looks at all of them. A key that looks
// like one of ours is taken for one; blocked makes sure.
func (l *lease) last(ctx context.Context, rev int64, kvs []*mvccpb.KeyValue) (view, error) {
	if len(kvs) > 0 && kvs[0].Lease == 0 && (l.careful || !ours(strings.TrimPrefix(string(kvs[0].Key), l.at.line))) {
		opts := []clientv3.OpOption{clientv3.WithPrefix()}
		if l.token != 0 {
			opts = append(opts, clientv3.WithMaxCreateRev(int64(l.token)-1))
		}
		err := l.b.do(ctx, func(ctx context.Context) error {
			r, err := l.b.client.Get(ctx, l.at.line, opts...)
			if err == nil {
				rev, kvs = r.Header.Revision, inLine(r.Kvs)
			}
			return err
		})
		if err != nil {
			return view{}, err
		}
	}
	if len(kvs) == 0 {
		return view{rev: rev}, nil
	}
	return view{rev: rev, ahead: []string{string(kvs[len(kvs)-1].Key)}}, nil
}

// look finds out whom the claim waits for now. It also makes sure that its own
// entry is still there: a claim without one is admitted nowhere.
func (l *lease) look(ctx context.Context) (view, error) {
	found := l.takeHanded()
	if found == nil {
		err := l.b.do(ctx, func(ctx context.Context) error {
			r, err := l.b.txn(ctx, nil, l.looking(), nil)
			if err == nil {
				found = newFinding(r, 0)
			}
			return err
		})
		if err != nil {
			return view{}, err
		}
	}
	if len(found.own) == 0 || found.own[0].CreateRevision != int64(l.token) {
		return view{}, l.vanished()
	}
	return l.judge(ctx, found.rev, found.ahead)
}

// looking is what look reads: the claim's own entry, and those ahead.
func (l *lease) looking() []clientv3.Op {
	return []clientv3.Op{l.own(), l.ahead(int64(l.token))}
}

// A finding is the answer to that.
type finding struct {
	rev        int64
	own, ahead []*mvccpb.KeyValue
}

// newFinding finds it among the answers, from the given one on.
func newFinding(r *clientv3.TxnResponse, at int) *finding {
	return &finding{
		rev:   r.Header.Revision,
		own:   r.Responses[at].GetResponseRange().Kvs,
		ahead: r.Responses[at+1].GetResponseRange().Kvs,
	}
}

// wait returns when it is time to look again.
func (l *lease) wait(ctx context.Context, v view) error {
	if len(v.ahead) > 1 {
		_, err := l.b.follow(ctx, watched{key: l.at.line, prefix: true, only: v.ahead,
			check: func(ctx context.Context, _ int64) (bool, int64, error) {
				now, err := l.look(ctx)
				return !slices.Equal(now.ahead, v.ahead), now.rev, err
			}}, v.rev)
		return err
	}
	// What this client itself has in line tells without a watch.
	if n, changed := l.neighbour(v.ahead[0]); n != nil {
		defer l.unfollow(n)
		select {
		case <-changed:
			return nil
		case <-ctx.Done():
			return remote.Why(ctx)
		}
	}
	_, err := l.b.follow(ctx, watched{key: v.ahead[0], check: l.blocked(v.ahead[0])}, v.rev)
	return err
}

// blocked checks whether the entry that l waits for is still the same.
func (l *lease) blocked(key string) func(context.Context, int64) (bool, int64, error) {
	return func(ctx context.Context, rev int64) (bool, int64, error) {
		var r *clientv3.GetResponse
		err := l.b.do(ctx, func(ctx context.Context) (err error) {
			r, err = l.b.client.Get(ctx, key)
			return err
		})
		if err != nil {
			return false, 0, err
		}
		if len(r.Kvs) == 1 && r.Kvs[0].Lease == 0 {
			l.careful = true
		}
		return len(r.Kvs) == 0 || l.careful || r.Kvs[0].ModRevision > rev, r.Header.Revision, nil
	}
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
	l.held = true
	return nil
}
