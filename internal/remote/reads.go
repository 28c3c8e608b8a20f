package remote

import (
	"context"
	"sync"

	"github.com/gocoord/coord/backend"
)

// Reads has the callers of one client who want the same thing read at the same
// time share a read. Nobody gets the result of one that was begun before the
// call: it might be older than what the caller knows already.
type Reads[T any] struct {
	ctx   context.Context
	spawn func(func()) bool
	mu    sync.Mutex
	keys  map[string]*reads[T]
}

// reads are those of one key: that in progress, and the next one, if somebody
// waits for it.
type reads[T any] struct{ next *read[T] }

type read[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// NewReads makes the Reads of a client that lives in ctx. Its spawn runs a function
// in a goroutine of the client's, or answers false when that is closed.
func NewReads[T any](ctx context.Context, spawn func(func()) bool) *Reads[T] {
	return &Reads[T]{ctx: ctx, spawn: spawn, keys: make(map[string]*reads[T])}
}

// Get returns the result of f, called after Get was, by this caller or another.
// On a closed client it is backend.ErrClosed.
func (s *Reads[T]) Get(ctx context.Context, key string, f func(context.Context) (T, error)) (T, error) {
	s.mu.Lock()
	r := &read[T]{done: make(chan struct{})}
	all, running := s.keys[key]
	switch {
	case !running:
		s.keys[key] = &reads[T]{}
	case all.next != nil:
		r = all.next
	default:
		all.next = r
	}
	s.mu.Unlock()
	if !running && !s.spawn(func() { s.run(key, r, f) }) {
		s.forget(key)
		var zero T
		return zero, backend.ErrClosed
	}
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		var zero T
		return zero, Why(ctx)
	}
}

// run makes reads for as long as somebody waits for the next one. None depends
// on the ctx of a caller: others share it.
func (s *Reads[T]) run(key string, r *read[T], f func(context.Context) (T, error)) {
	for r != nil {
		r.value, r.err = f(s.ctx)
		close(r.done)
		s.mu.Lock()
		all := s.keys[key]
		if r, all.next = all.next, nil; r == nil {
			delete(s.keys, key)
		}
		s.mu.Unlock()
	}
}

// forget ends the wait of those who share a read that a closed client did not
// begin.
func (s *Reads[T]) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all := s.keys[key]; all != nil && all.next != nil {
		all.next.err = backend.ErrClosed
		close(all.next.done)
	}
	delete(s.keys, key)
}
