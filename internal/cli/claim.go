package cli

import (
	"context"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
)

// A claim is something that a command can run under.
type claim interface {
	kind() backend.Kind
	obtain(ctx context.Context, s *service, name string, try bool) (*admission, error)
}

type lockClaim struct{ shared bool }

func (c lockClaim) kind() backend.Kind { return backend.Mutex }

func (c lockClaim) obtain(ctx context.Context, s *service, name string, try bool) (*admission, error) {
	l := coord.Locker(s.RWLocker(name))
	if c.shared {
		l = coord.RLocker(s.RWLocker(name))
	}
	acquire := l.Lock
	if try {
		acquire = l.TryLock
	}
	return held(c.kind())(acquire(ctx))
}

type permitClaim struct{ n, limit int64 }

func (c permitClaim) kind() backend.Kind { return backend.Semaphore }

func (c permitClaim) obtain(ctx context.Context, s *service, name string, try bool) (*admission, error) {
	acquire := s.Semaphore(name, c.limit).Acquire
	if try {
		acquire = s.Semaphore(name, c.limit).TryAcquire
	}
	return held(c.kind())(acquire(ctx, c.n))
}

type leaderClaim struct{ data string }

func (c leaderClaim) kind() backend.Kind { return backend.Election }

func (c leaderClaim) obtain(ctx context.Context, s *service, name string, try bool) (*admission, error) {
	campaign := s.Election(name).Campaign
	if try {
		campaign = s.Election(name).TryCampaign
	}
	return held(c.kind())(campaign(ctx, []byte(c.data)))
}

// held makes an admission of a hold.
func held(kind backend.Kind) func(*coord.Hold, error) (*admission, error) {
	return func(h *coord.Hold, err error) (*admission, error) {
		if err != nil {
			return nil, err
		}
		return &admission{
			kind: kind, name: h.Name(), token: h.Token(), done: h.Done(), err: h.Err,
			release: func(context.Context) error { return h.Release() },
		}, nil
	}
}

type barrierClaim struct{ parties int }

func (c barrierClaim) kind() backend.Kind { return backend.Barrier }

func (c barrierClaim) obtain(ctx context.Context, s *service, name string, _ bool) (*admission, error) {
	r, err := s.Barrier(name, c.parties).Enter(ctx)
	if err != nil {
		return nil, err
	}
	return &admission{
		kind: c.kind(), name: name, token: r.Number(), done: r.Done(), err: r.Err,
		release: r.Leave, waits: true,
	}, nil
}
