package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/remote"
)

// A register is a key whose version is its modification revision, or "0" where
// there is none. Its value begins with a line that names the Store that wrote
// it, so that a repeat of that recognises its own effect.
const tagPrefix = "coord1 "

// noRegister is the version of a register that does not exist.
const noRegister = backend.Version("0")

// largeStore is the number of entries from which on a Store uses a marker,
// since etcd takes only 128 conditions in a transaction.
const largeStore = 100

func version(rev int64) backend.Version { return backend.Version(strconv.FormatInt(rev, 10)) }

// revision is the inverse of version. What is no version of a register is the
// version of none.
func revision(v backend.Version) int64 {
	rev, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || rev < 0 {
		return never
	}
	return rev
}

// Load implements backend.Backend.
func (b *Backend) Load(ctx context.Context, p backend.Place, since backend.Version) (backend.Value, error) {
	ctx, stop, err := remote.Begin(ctx, b.ctx, p)
	if err != nil {
		return backend.Value{}, err
	}
	defer stop()
	key := b.place(p).register()
	if since == "" {
		v, _, err := b.load(ctx, key)
		return v, err
	}
	// Whoever has seen a version most often waits for the next. That is watched
	// for before it is looked for, and a change brings its value along.
	v := backend.Value{Version: since}
	next := watched{
		key: key,
		event: func(e *clientv3.Event) bool {
			var kvs []*mvccpb.KeyValue
			if e.Type == clientv3.EventTypePut {
				kvs = append(kvs, e.Kv)
			}
			v, _ = register(kvs)
			return v.Version != since
		},
		check: func(ctx context.Context, _ int64) (changed bool, now int64, err error) {
			v, now, err = b.load(ctx, key)
			return v.Version != since, now, err
		},
	}
	if err := b.await(ctx, next); err != nil {
		return backend.Value{}, err
	}
	return v, nil
}

// load reads a register, and says at which revision of the store.
func (b *Backend) load(ctx context.Context, key string) (backend.Value, int64, error) {
	r, err := b.loads.Get(ctx, key, func(ctx context.Context) (r *clientv3.GetResponse, err error) {
		err = b.do(ctx, func(ctx context.Context) (err error) {
			r, err = b.client.Get(ctx, key)
			return err
		})
		return r, err
	})
	if err != nil {
		return backend.Value{}, 0, err
	}
	v, _ := register(r.Kvs)
	v.Data = slices.Clone(v.Data) // it may be shared
	return v, r.Header.Revision, nil
}

// register reads a register from the answer to a Get, with the tag of its Store.
func register(kvs []*mvccpb.KeyValue) (backend.Value, string) {
	if len(kvs) == 0 {
		return backend.Value{Version: noRegister}, ""
	}
	v := backend.Value{Data: kvs[0].Value, Version: version(kvs[0].ModRevision)}
	if v.Data == nil {
		v.Data = []byte{}
	}
	first, rest, ok := bytes.Cut(v.Data, []byte("\n"))
	tag, tagged := strings.CutPrefix(string(first), tagPrefix)
	if !ok || !tagged {
		return v, "" // somebody else wrote it
	}
	v.Data = rest
	return v, tag
}

// Store implements backend.Backend.
func (b *Backend) Store(ctx context.Context, p backend.Place, data []byte, prev backend.Version, alive ...string) (backend.Version, error) {
	if err := backend.CheckRegister(data); err != nil {
		return "", err
	}
	ctx, stop, err := remote.Begin(ctx, b.ctx, p)
	if err != nil {
		return "", err
	}
	defer stop()
	w := b.newWrite(b.place(p), data, prev, alive)
	var v backend.Version
	if len(alive) > largeStore {
		v, err = w.large(ctx, p.Kind)
	} else if v, err = w.small(ctx); errors.Is(err, rpctypes.ErrTooManyOps) {
		v, err = w.large(ctx, p.Kind)
	}
	if w.doubt && err != nil && !errors.Is(err, backend.ErrConflict) {
		b.doubts.Remember(w.at.register(), w.tag, w.data, prev)
	}
	return v, err
}

// A write is a Store in progress.
type write struct {
	b     *Backend
	at    place
	tag   string
	data  []byte
	prev  int64
	alive []string
	doubt bool // a request went unanswered
}

func (w *write) put() []clientv3.Op {
	switch {
	case w.data != nil:
		return []clientv3.Op{clientv3.OpPut(w.at.register(), tagPrefix+w.tag+"\n"+string(w.data))}
	case w.prev != 0:
		return []clientv3.Op{on(deleteKey, w.at.register())}
	}
	return nil
}

func (w *write) unchanged() clientv3.Cmp {
	return modified(w.at.register(), w.prev)
}

// commit makes the transaction and finds out whether it took effect.
func (w *write) commit(ctx context.Context, conditions []clientv3.Cmp, then, otherwise []clientv3.Op) (backend.Version, error) {
	var r *clientv3.TxnResponse
	otherwise = append([]clientv3.Op{clientv3.OpGet(w.at.register())}, otherwise...)
	err := w.b.do(ctx, func(ctx context.Context) (err error) {
		r, err = w.b.txn(ctx, conditions, then, otherwise)
		if err != nil && temporary(err) {
			w.doubt = true
		}
		return err
	})
	if err != nil {
		return "", err
	}
	if r.Succeeded {
		if w.data == nil {
			return noRegister, nil
		}
		return version(r.Header.Revision), nil
	}
	return w.settle(ctx, r.Responses[0].GetResponseRange().Kvs)
}

// settle decides about a transaction whose conditions did not hold. That may be
// its own doing, if it is a repeat.
func (w *write) settle(ctx context.Context, kvs []*mvccpb.KeyValue) (backend.Version, error) {
	now, tag := register(kvs)
	conflict := fmt.Errorf("%w: the register is at version %s, or an entry has left", backend.ErrConflict, now.Version)
	switch {
	case tag == w.tag:
		return now.Version, nil
	case !w.doubt || now.Version == version(w.prev):
		return "", conflict
	case w.data == nil && now.Version == noRegister:
		return noRegister, nil
	}
	first, err := w.successor(ctx, kvs)
	if err != nil {
		return "", err
	}
	v, tag := register(first)
	if tag == w.tag || w.data == nil && len(first) == 0 {
		return v.Version, nil
	}
	return "", conflict
}

// successor finds what replaced the version that the Store was to replace. The
// history of a key is there until it is compacted.
func (w *write) successor(ctx context.Context, now []*mvccpb.KeyValue) ([]*mvccpb.KeyValue, error) {
	lost := func(err error) error {
		return backend.Unavailable(w.b.info.Service, fmt.Errorf("the answer to a store was lost, and others have stored since: %w", err))
	}
	if w.prev == 0 {
		if len(now) == 0 {
			return nil, lost(rpctypes.ErrCompacted)
		}
		var r *clientv3.GetResponse
		err := w.b.do(ctx, func(ctx context.Context) (err error) {
			r, err = w.b.client.Get(ctx, w.at.register(), clientv3.WithRev(now[0].CreateRevision))
			return err
		})
		if err != nil {
			return nil, lost(err)
		}
		return r.Kvs, nil
	}
	watching, cancel := context.WithTimeout(w.b.watching(ctx), w.b.patience())
	defer cancel()
	for r := range w.b.client.Watch(watching, w.at.register(), clientv3.WithRev(w.prev+1)) {
		if err := r.Err(); err != nil {
			return nil, lost(err)
		}
		for _, e := range r.Events {
			if e.Type == clientv3.EventTypeDelete {
				return nil, nil
			}
			return []*mvccpb.KeyValue{e.Kv}, nil
		}
	}
	if err := remote.Why(ctx); err != nil {
		return nil, err
	}
	return nil, lost(errors.New("no answer"))
}

// small names every entry among the conditions.
func (w *write) small(ctx context.Context) (backend.Version, error) {
	conditions := []clientv3.Cmp{w.unchanged()}
	for _, id := range w.alive {
		conditions = append(conditions, present(entryKey(w.at.line, id)))
	}
	return w.commit(ctx, conditions, w.put(), nil)
}

// large stores on the condition that a marker is still there, which it puts
// before it reads the line: whoever removes an entry removes the markers of its
// place in the same step. So all entries that are found stay until the store,
// but for those whose session expires in between.
func (w *write) large(ctx context.Context, kind backend.Kind) (backend.Version, error) {
	if !hasMarkers(kind) {
		return "", fmt.Errorf("%w: etcd cannot check %d entries of a %s in one step", backend.ErrUnsupported, len(w.alive), kind)
	}
	s, err := w.b.openSession(ctx)
	if err != nil {
		return "", err
	}
	marker := w.at.closing() + strconv.FormatInt(int64(s.id), 16) + "-" + w.tag
	rev, missing, err := w.mark(ctx, s, marker)
	if err == nil && missing != "" {
		err = fmt.Errorf("%w: entry %s has left", backend.ErrConflict, missing)
	}
	var v backend.Version
	if err == nil {
		unmark := on(deleteKey, marker)
		v, err = w.commit(ctx, []clientv3.Cmp{w.unchanged(), present(marker, rev)},
			append(w.put(), unmark), []clientv3.Op{unmark})
		if err == nil || errors.Is(err, backend.ErrConflict) {
			return v, err
		}
	}
	w.b.spawn(func() {
		_ = w.b.do(s.ctx, func(ctx context.Context) error {
			_, err := w.b.client.Delete(ctx, marker)
			return err
		})
	})
	return "", err
}

// hasMarkers reports whether removing an entry of the kind breaks large Stores.
// It costs something, so the kinds that hold one another up do without.
func hasMarkers(k backend.Kind) bool {
	return k == backend.Barrier || k == backend.Group || k == backend.Latch
}

// mark puts the marker, and then looks whether all entries are in line.
func (w *write) mark(ctx context.Context, s *session, marker string) (rev int64, missing string, err error) {
	var put *clientv3.TxnResponse
	err = w.b.do(ctx, func(ctx context.Context) (err error) {
		put, err = w.b.txn(ctx, []clientv3.Cmp{absent(marker)},
			[]clientv3.Op{clientv3.OpPut(marker, "", clientv3.WithLease(s.id))},
			[]clientv3.Op{clientv3.OpGet(marker)})
		return err
	})
	if errors.Is(err, errStale) {
		s.end(backend.Lost("%w", err))
		return 0, "", fmt.Errorf("%w: %w", backend.ErrConflict, err)
	}
	if err != nil {
		return 0, "", err
	}
	rev = put.Header.Revision
	if !put.Succeeded {
		found := put.Responses[0].GetResponseRange().Kvs
		if len(found) == 0 {
			return 0, "", fmt.Errorf("%w: the session ended during a store", backend.ErrConflict)
		}
		rev = found[0].CreateRevision
	}
	roster, _, err := w.b.roster(ctx, w.at)
	if err != nil {
		return 0, "", err
	}
	in := make(map[string]bool, len(roster.Entries))
	for _, e := range roster.Entries {
		in[e.ID] = true
	}
	for _, id := range w.alive {
		if !in[id] {
			return rev, id, nil
		}
	}
	return rev, "", nil
}

func (b *Backend) newWrite(at place, data []byte, prev backend.Version, alive []string) *write {
	w := &write{b: b, at: at, data: slices.Clone(data), prev: revision(prev), alive: slices.Clone(alive)}
	if w.tag, w.doubt = b.doubts.Take(at.register(), data, prev); w.doubt {
		return w
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seq++
	w.tag = b.nonce + "-" + strconv.FormatUint(b.seq, 16)
	return w
}
