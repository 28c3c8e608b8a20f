package etcd

import (
	"context"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// watched says which changes to wait for.
type watched struct {
	key    string
	prefix bool     // all keys below key
	only   []string // those of them; nil: all
	gone   bool     // deletions alone
}

func (w watched) hit(e *clientv3.Event) bool {
	if w.gone && e.Type != clientv3.EventTypeDelete {
		return false
	}
	return w.only == nil || slices.Contains(w.only, string(e.Kv.Key))
}

// await returns nil when it is time to look again: after a change later than
// revision rev, after a watch that broke, and from time to time. It promises
// nothing about what a look will find.
//
// The watch has no start revision. etcd serves one that begins in the past
// only at the next of its 100 ms ticks; one that begins now is live at once.
// What happened before it was created is found by looking once more.
func (b *Backend) await(ctx context.Context, w watched, rev int64) error {
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
		select {
		case r, open := <-events:
			if !open || r.Err() != nil {
				return b.broken(ctx, stream, r.Err())
			}
			b.hear()
			if r.Created && r.Header.Revision > rev {
				return nil
			}
			for _, e := range r.Events {
				if e.Kv.ModRevision > rev && w.hit(e) {
					return nil
				}
			}
		case <-again.C:
			// Is it only quiet, or does nobody answer any more?
			if ticks++; ticks == 3 || b.clock()-time.Duration(b.heard.Load()) > b.info.Expiry/3 {
				return nil
			}
		case <-ctx.Done():
			return why(ctx)
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
		return why(ctx)
	}
	if err != nil {
		b.stream.CompareAndSwap(stream, stream+1)
	}
	return sleep(ctx, shortestPause)
}
