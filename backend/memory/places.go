package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/gocoord/coord/backend"
)

// Places implements backend.Lister.
func (b *Backend) Places(ctx context.Context) ([]backend.Place, error) {
	if ctx.Err() != nil {
		return nil, backend.ContextError(ctx)
	}
	if b.closed.Load() {
		return nil, backend.ErrClosed
	}
	var out []backend.Place
	for i := range b.space.shards {
		sh := &b.space.shards[i]
		sh.mu.Lock()
		for k, ln := range sh.lines {
			if ln.n > 0 {
				out = append(out, backend.Place{Kind: k.kind, Name: k.name})
			}
		}
		sh.mu.Unlock()
	}
	slices.SortFunc(out, func(x, y backend.Place) int {
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name))
	})
	return out, nil
}
