package etcd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/remote"
)

// Places implements backend.Lister. Names that were too long to be kept as they
// are cannot be told, and are left out.
func (b *Backend) Places(ctx context.Context) ([]backend.Place, error) {
	ctx, stop := remote.Join(ctx, b.ctx)
	defer stop()
	if err := remote.Why(ctx); err != nil {
		return nil, err
	}
	seen := make(map[backend.Place]bool)
	var out []backend.Place
	for _, kind := range backend.Kinds() {
		if kind == backend.RWMutex {
			continue // it shares the places of Mutex
		}
		prefix := b.root + "/" + kind.Dir() + "/"
		var r *clientv3.GetResponse
		err := b.do(ctx, func(ctx context.Context) (err error) {
			// Not the keys alone: etcd 3.7 then leaves out the leases.
			r, err = b.client.Get(ctx, prefix, clientv3.WithPrefix())
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, kv := range inLine(r.Kvs) {
			escaped, _, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), prefix), "/")
			name, ok := backend.Unescape(escaped)
			if p := (backend.Place{Kind: kind, Name: name}); ok && !seen[p] {
				seen[p] = true
				out = append(out, p)
			}
		}
	}
	slices.SortFunc(out, func(x, y backend.Place) int {
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name))
	})
	return out, nil
}

// Diagnose implements backend.Diagnoser: it asks each member for its version,
// its leader, the size of its database and its troubles.
func (b *Backend) Diagnose(ctx context.Context) ([]backend.Finding, error) {
	ctx, stop := remote.Join(ctx, b.ctx)
	defer stop()
	endpoints := b.client.Endpoints()
	var out []backend.Finding
	versions := make(map[string]bool)
	for _, e := range endpoints {
		f := backend.Finding{Subject: "member " + e}
		var status *clientv3.StatusResponse
		err := b.attempt(ctx, b.patience(), func(ctx context.Context) (err error) {
			status, err = b.client.Status(ctx, e)
			return err
		})
		if ended := remote.Why(ctx); ended != nil {
			return out, ended
		}
		if err != nil {
			f.Detail = b.explain(err).Error()
			f.Advice = "start it, or take it out of the URL; the others go on as long as they are a majority"
			out = append(out, f)
			continue
		}
		versions[status.Version] = true
		f.Detail = fmt.Sprintf("version %s, database %.1f MB", status.Version, float64(status.DbSize)/(1<<20))
		switch {
		case status.Leader == 0:
			f.Advice = "it knows no leader: look after the cluster's majority"
		case len(status.Errors) > 0:
			f.Detail += ", " + strings.Join(status.Errors, ", ")
			f.Advice = `see "etcdctl alarm list" and etcd's log`
		case status.IsLearner:
			f.Advice = "it is a learner, which answers no claims: take it out of the URL"
		}
		out = append(out, f)
	}
	if len(versions) > 1 {
		out = append(out, backend.Finding{
			Subject: "versions", Detail: "the members differ",
			Advice: "finish the upgrade",
		})
	}
	return append(out, b.ttlFinding()), nil
}

// ttlFinding tells whether etcd granted the ttl that was asked for.
func (b *Backend) ttlFinding() backend.Finding {
	granted := b.info.Expiry - late
	f := backend.Finding{Subject: "session", Detail: fmt.Sprintf("ttl %v", granted)}
	if granted != b.ttl {
		f.Detail += fmt.Sprintf(", %v asked for", b.ttl)
		f.Advice = "etcd raises a ttl that is short for its election time-out: ask for " + granted.Round(time.Second).String() + " or more"
	}
	return f
}
