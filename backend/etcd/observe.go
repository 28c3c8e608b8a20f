package etcd

import (
	"context"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/remote"
)

// Observe implements backend.Backend.
func (b *Backend) Observe(ctx context.Context, p backend.Place, since backend.Version) (backend.Roster, error) {
	ctx, stop, err := remote.Begin(ctx, b.ctx, p)
	if err != nil {
		return backend.Roster{}, err
	}
	defer stop()
	at := b.place(p)
	if since == "" {
		roster, _, err := b.roster(ctx, at)
		return roster, err
	}
	for {
		roster := backend.Roster{Version: since}
		err := b.await(ctx, watched{key: at.line, prefix: true,
			check: func(ctx context.Context, _ int64) (_ bool, rev int64, err error) {
				roster, rev, err = b.roster(ctx, at)
				return roster.Version != since, rev, err
			}})
		if err == nil && roster.Version == since { // an event came: what is it like now?
			roster, _, err = b.roster(ctx, at)
		}
		if err != nil || roster.Version != since {
			return roster, err
		}
	}
}

// seen is a line, and the revision of the store at which it was read.
type seen struct {
	backend.Roster
	rev int64
}

// roster reads the line.
func (b *Backend) roster(ctx context.Context, at place) (backend.Roster, int64, error) {
	s, err := b.rosters.Get(ctx, at.line, func(ctx context.Context) (seen, error) { return b.readLine(ctx, at) })
	if err != nil {
		return backend.Roster{}, 0, err
	}
	s.Entries = slices.Clone(s.Entries) // it may be shared
	for i := range s.Entries {
		s.Entries[i].Claim = s.Entries[i].Claim.Clone()
	}
	return s.Roster, s.rev, nil
}

func (b *Backend) readLine(ctx context.Context, at place) (seen, error) {
	var r *clientv3.GetResponse
	err := b.do(ctx, func(ctx context.Context) (err error) {
		r, err = b.client.Get(ctx, at.line, clientv3.WithPrefix())
		return err
	})
	if err != nil {
		return seen{}, err
	}
	// Of two states with the same last change one is part of the other, since
	// only removals lie between them. So their sizes tell them apart.
	var changed int64
	kvs := inLine(r.Kvs)
	roster := backend.Roster{Entries: make([]backend.Entry, len(kvs))}
	for i, kv := range kvs {
		roster.Entries[i] = decode(at.line, kv)
		changed = max(changed, kv.ModRevision)
	}
	backend.Admit(roster.Entries)
	roster.Version = backend.Version(fmt.Sprintf("%d.%d", changed, len(kvs)))
	return seen{roster, r.Header.Revision}, nil
}

// Gone implements backend.Backend.
func (b *Backend) Gone(ctx context.Context, p backend.Place, id string) error {
	ctx, stop, err := remote.Begin(ctx, b.ctx, p)
	if err != nil {
		return err
	}
	defer stop()
	key, of := entryKey(b.place(p).line, id)
	w := watched{
		key: key,
		event: func(e *clientv3.Event) bool {
			return e.Type == clientv3.EventTypeDelete || e.Kv.CreateRevision != of
		},
		check: func(ctx context.Context, _ int64) (bool, int64, error) {
			var r *clientv3.GetResponse
			err := b.do(ctx, func(ctx context.Context) (err error) {
				r, err = b.client.Get(ctx, key, clientv3.WithKeysOnly())
				return err
			})
			if err != nil {
				return false, 0, err
			}
			return len(r.Kvs) == 0 || r.Kvs[0].CreateRevision != of, r.Header.Revision, nil
		},
	}
	return b.await(ctx, w)
}
