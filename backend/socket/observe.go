//go:build linux || darwin

package socket

import (
	"context"

	"github.com/gocoord/coord/backend"
)

// Observe implements backend.Backend.
func (b *Backend) Observe(ctx context.Context, p backend.Place, since backend.Version) (backend.Roster, error) {
	if s := b.server.Load(); s != nil {
		r, err := s.local.Observe(ctx, p, since)
		return r, b.ofServer(err)
	}
	r, err := b.lookUp(ctx, &request{op: opObserve, place: p, ver: since})
	if err != nil {
		return backend.Roster{}, err
	}
	return backend.Roster{Entries: r.roster, Version: r.ver}, nil
}

// Gone implements backend.Backend.
func (b *Backend) Gone(ctx context.Context, p backend.Place, id string) error {
	if s := b.server.Load(); s != nil {
		return b.ofServer(s.local.Gone(ctx, p, id))
	}
	_, err := b.lookUp(ctx, &request{op: opGone, place: p, id: id})
	return err
}

// lookUp asks for something that changes nothing.
func (b *Backend) lookUp(ctx context.Context, q *request) (*reply, error) {
	if err := backend.ContextError(ctx); err != nil {
		return nil, err
	}
	if err := q.place.Check(); err != nil {
		return nil, err
	}
	r, _, err := b.ask(ctx, q)
	return r, err
}
