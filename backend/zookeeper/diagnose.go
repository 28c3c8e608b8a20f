package zookeeper

import (
	"cmp"
	"context"
	"fmt"
	"slices"

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
	if err := b.sync(ctx, b.base); err != nil {
		return nil, err
	}
	var out []backend.Place
	for _, kind := range backend.Kinds() {
		if kind == backend.RWMutex {
			continue // it shares the places of Mutex
		}
		dir := b.base + "/" + kind.Dir()
		l, err := b.listing(ctx, dir)
		if err != nil {
			return nil, err
		}
		for _, escaped := range l.names {
			name, ok := backend.Unescape(escaped)
			if !ok {
				continue
			}
			line, err := b.listing(ctx, dir+"/"+escaped)
			if err != nil {
				return nil, err
			}
			if len(inLine(line.names)) > 0 {
				out = append(out, backend.Place{Kind: kind, Name: name})
			}
		}
	}
	slices.SortFunc(out, func(x, y backend.Place) int {
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name))
	})
	return out, nil
}

// Diagnose implements backend.Diagnoser: it tells which server answers, and
// whether the session is as long as was asked for.
func (b *Backend) Diagnose(ctx context.Context) ([]backend.Finding, error) {
	ctx, stop := remote.Join(ctx, b.ctx)
	defer stop()
	if err := b.sync(ctx, b.base); err != nil {
		if ended := remote.Why(ctx); ended != nil {
			return nil, ended
		}
		return []backend.Finding{{
			Subject: "ensemble", Detail: err.Error(),
			Advice: "look after the majority of the servers, and the network",
		}}, nil
	}
	out := []backend.Finding{{Subject: "server", Detail: b.conn.Server() + " answers and follows a leader"}}
	granted := b.info.Expiry - late
	f := backend.Finding{Subject: "session", Detail: fmt.Sprintf("timeout %v", granted)}
	if b.asked != 0 && granted != b.asked {
		f.Detail += fmt.Sprintf(", %v asked for", b.asked)
		f.Advice = "see minSessionTimeout and maxSessionTimeout of the servers, or ask for " + granted.String()
	}
	return append(out, f), nil
}
