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

	// check looks whether something changed after revision rev, and at which
	// revision it looked.
	check func(ctx context.Context, rev int64) (changed bool, now int64, err error)
}

func (w watched) hit(e *clientv3.Event) bool {
	if w.gone && e.Type != clientv3.EventTypeDelete {
		return false
	}
	return w.only == nil || slices.Contains(w.only, string(e.Kv.Key))
}

// oneKey watches a key that was there, or was not.
func (b *Backend) oneKey(key string, there bool) watched {
	return watched{key: key, check: func(ctx context.Context, rev int64) (bool, int64, error) {
		var r *clientv3.GetResponse
		err := b.do(ctx, func(ctx context.Context) (err error) {
			r, err = b.client.Get(ctx, key, clientv3.WithKeysOnly())
			return err
		})
		if err != nil {
			return false, 0, err
		}
		is := len(r.Kvs) == 1
		return is != there || is && r.Kvs[0].ModRevision > rev, r.Header.Revision, nil
	}}
}

// await returns nil when it is time to look again: after a change later than
// revision rev, and after a watch that broke. It promises nothing about what a
// look will find.
//
// The watch has no start revision. etcd serves one that begins in the past
// only at the next of its 100 ms ticks; one that begins now is live at once.
// What happened before it was created is found by a check.
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
		var check bool
		select {
		case r, open := <-events:
			if !open || r.Err() != nil {
				return b.broken(ctx, stream, r.Err())
			}
			b.hear()
			check = r.Created && r.Header.Revision > rev
			for _, e := range r.Events {
				if e.Kv.ModRevision > rev && w.hit(e) {
					return nil
				}
			}
		case <-again.C:
			// Is it only quiet, or does nobody answer any more?
			ticks++
			check = ticks%3 == 0 || b.clock()-time.Duration(b.heard.Load()) > b.info.Expiry/3
		case <-ctx.Done():
			return why(ctx)
		}
		if check {
			changed, now, err := w.check(ctx, rev)
			if err != nil || changed {
				return err
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
		return why(ctx)
	}
	if err != nil {
		b.stream.CompareAndSwap(stream, stream+1)
	}
	return sleep(ctx, shortestPause)
}
