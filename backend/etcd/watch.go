package etcd

import (
	"context"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/gocoord/coord/internal/remote"
)

// watched says which changes to wait for.
type watched struct {
	key    string
	prefix bool     // all keys below key
	only   []string // those of them; nil: all

	// event looks at a change and reports whether it ends the wait; nil: each does.
	event func(*clientv3.Event) bool

	// check looks whether something changed after revision rev, and at which
	// revision it looked.
	check func(ctx context.Context, rev int64) (changed bool, now int64, err error)
}

func (w watched) hit(e *clientv3.Event) bool {
	if w.only != nil && !slices.Contains(w.only, string(e.Kv.Key)) {
		return false
	}
	return w.event == nil || w.event(e)
}

// await returns nil once a check or an event has found a change. It watches
// before it looks, so that a change that comes later costs no further request.
func (b *Backend) await(ctx context.Context, w watched) error {
	for {
		changed, err := b.follow(ctx, w, never)
		if err != nil || changed {
			return err
		}
		// The watch broke. If etcd cannot be reached it is the check that says so.
		if changed, _, err = w.check(ctx, 0); err != nil || changed {
			return err
		}
	}
}

// follow returns without an error when it is time to look again: after a change
// later than revision rev, which it reports, and after a watch that broke. With
// never as rev it begins with a check.
//
// The watch has no start revision. etcd serves one that begins in the past
// only at the next of its 100 ms ticks; one that begins now is live at once.
// What happened before it was created is found by a check.
func (b *Backend) follow(ctx context.Context, w watched, rev int64) (changed bool, err error) {
	watching, cancel := context.WithCancel(b.watching(ctx))
	defer cancel()
	opts := []clientv3.OpOption{clientv3.WithCreatedNotify()}
	if w.prefix {
		opts = append(opts, clientv3.WithPrefix())
	}
	// Opening blocks, and nothing ends that in a service that went mute.
	opening := time.AfterFunc(b.patience(), cancel)
	stream := b.stream.Load()
	events := b.client.Watch(watching, w.key, opts...)
	opening.Stop()
	again := time.NewTicker(b.info.Expiry / 3)
	defer again.Stop()
	for ticks := 0; ; {
		var check bool
		select {
		case r, open := <-events:
			if !open || r.Err() != nil {
				return false, b.broken(ctx, stream, r.Err())
			}
			b.hear()
			check = r.Created && r.Header.Revision > rev
			for _, e := range r.Events {
				if e.Kv.ModRevision > rev && w.hit(e) {
					return true, nil
				}
			}
		case <-again.C:
			// Is it only quiet, or does nobody answer any more?
			ticks++
			check = ticks%3 == 0 || b.clock()-time.Duration(b.heard.Load()) > b.info.Expiry/3
		case <-ctx.Done():
			return false, remote.Why(ctx)
		}
		if check {
			changed, now, err := w.check(ctx, rev)
			if err != nil || changed {
				return changed, err
			}
			rev = max(rev, now)
		}
	}
}

// watching derives the context of a watch. All watches of a client share one
// stream for as long as its number stays the same. A member that lost its
// leader ends its watches, rather than to keep silent.
func (b *Backend) watching(ctx context.Context) context.Context {
	return metadata.NewOutgoingContext(ctx, metadata.Pairs(
		rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader,
		"coord-watch", strconv.FormatInt(b.stream.Load(), 10)))
}

// broken prepares for another watch, on a new stream: an old one keeps the
// authentication token that it was opened with.
func (b *Backend) broken(ctx context.Context, stream int64, err error) error {
	if ctx.Err() != nil {
		return remote.Why(ctx)
	}
	if err != nil {
		b.stream.CompareAndSwap(stream, stream+1)
	}
	return remote.Sleep(ctx, remote.ShortestPause)
}
