//go:build linux || darwin

package socket

import (
	"bytes"
	"context"
	"slices"

	"github.com/gocoord/coord/backend"
)

// Load implements backend.Backend.
func (b *Backend) Load(ctx context.Context, p backend.Place, since backend.Version) (backend.Value, error) {
	if s := b.server.Load(); s != nil {
		v, err := s.local.Load(ctx, p, since)
		return v, b.ofServer(err)
	}
	r, err := b.lookUp(ctx, &request{op: opLoad, place: p, ver: since})
	if err != nil {
		return backend.Value{}, err
	}
	return backend.Value{Data: r.data, Version: r.ver}, nil
}

// Store implements backend.Backend.
func (b *Backend) Store(ctx context.Context, p backend.Place, data []byte, prev backend.Version, alive ...string) (backend.Version, error) {
	if s := b.server.Load(); s != nil {
		v, err := s.local.Store(ctx, p, data, prev, alive...)
		return v, b.ofServer(err)
	}
	if err := backend.ContextError(ctx); err != nil {
		return "", err
	}
	if err := p.Check(); err != nil {
		return "", err
	}
	if err := backend.CheckRegister(data); err != nil {
		return "", err
	}
	q := &request{op: opStore, place: p, data: bytes.Clone(data), ver: prev, alive: slices.Clone(alive)}
	r, c, err := b.ask(ctx, q)
	if err != nil {
		return "", c.perhaps(b.at, err)
	}
	return r.ver, nil
}
