package etcd

import (
	"context"
	"sync"

	"github.com/gocoord/coord/backend"
)

// shared has the callers of this client who want the same thing read at the
// same time share a read. Nobody gets the result of one that was begun before
// the call: it might be older than what the caller knows already.
type shared[T any] struct {
	b     *Backend
	mu    sync.Mutex
	reads map[string]*reads[T]
}

// reads are those of one key: that in progress, and the next one, if somebody
// waits for it.
type reads[T any] struct{ next *read[T] }

type read[T any] struct {
	done  chan struct{}
	value T
	err   error
}

func newShared[T any](b *Backend) *shared[T] {
	return &shared[T]{b: b, reads: make(map[string]*reads[T])}
}

// get returns the result of f, called after get was, by this caller or another.
func (s *shared[T]) get(ctx context.Context, key string, f func(context.Context) (T, error)) (T, error) {
	s.mu.Lock()
	r := &read[T]{done: make(chan struct{})}
	all, running := s.reads[key]
	switch {
	case !running:
		s.reads[key] = &reads[T]{}
	case all.next != nil:
		r = all.next
	default:
		all.next = r
	}
	s.mu.Unlock()
	if !running && !s.b.spawn(func() { s.run(key, r, f) }) {
		s.forget(key)
		var zero T
		return zero, backend.ErrClosed
	}
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		var zero T
		return zero, why(ctx)
	}
}

// run makes reads for as long as somebody waits for the next one. None depends
// on the ctx of a caller: others share it.
func (s *shared[T]) run(key string, r *read[T], f func(context.Context) (T, error)) {
	for r != nil {
		r.value, r.err = f(s.b.ctx)
		close(r.done)
		s.mu.Lock()
		all := s.reads[key]
		if r, all.next = all.next, nil; r == nil {
			delete(s.reads, key)
		}
		s.mu.Unlock()
	}
}

// forget ends the wait of those who share a read that a closed Backend did not
// begin.
func (s *shared[T]) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all := s.reads[key]; all != nil && all.next != nil {
		all.next.err = backend.ErrClosed
		close(all.next.done)
	}
	delete(s.reads, key)
}
