package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/backend/memory"
)

// A liar is a client of memory that tells the truth except where a field says
// otherwise.
type liar struct {
	backend.Backend
	world *world // shared by the liars of one service

	acquire func(l *liar, ctx context.Context, p backend.Place, c backend.Claim) (backend.Lease, error)
	observe func(l *liar, ctx context.Context, p backend.Place, since backend.Version) (backend.Roster, error)
	gone    func(l *liar, ctx context.Context, p backend.Place, id string) error
	load    func(l *liar, ctx context.Context, p backend.Place, since backend.Version) (backend.Value, error)
	store   func(l *liar, ctx context.Context, p backend.Place, data []byte, prev backend.Version, alive []string) (backend.Version, error)
	lease   func(l *liar, p backend.Place, inner backend.Lease) backend.Lease
	close   func(l *liar) error
	ending  context.Context // ends with Close
	end     context.CancelFunc

	mu    sync.Mutex
	holds map[backend.Place]backend.Lease
	stale map[backend.Place]backend.Value
}

// A world is what the liars of one service share.
type world struct {
	mu      sync.Mutex
	holders map[backend.Place]backend.Lease
	stacks  map[backend.Place]*stack
	data    sync.Map // of entries, by ID
}

// liars is a harness of clients that all lie in the same way.
func liars(lie func(*liar)) Harness {
	h := onMemory()
	worlds := make(map[string]*world)
	var mu sync.Mutex
	h.Open = func(tb testing.TB) backend.Backend {
		mu.Lock()
		defer mu.Unlock()
		w := worlds[tb.Name()]
		if w == nil {
			w = &world{holders: make(map[backend.Place]backend.Lease), stacks: make(map[backend.Place]*stack)}
			worlds[tb.Name()] = w
		}
		l := &liar{Backend: memory.Open(tb.Name()), world: w,
			holds: make(map[backend.Place]backend.Lease), stale: make(map[backend.Place]backend.Value)}
		l.ending, l.end = context.WithCancel(context.Background())
		lie(l)
		return l
	}
	return h
}

func (l *liar) Acquire(ctx context.Context, p backend.Place, c backend.Claim) (backend.Lease, error) {
	acquire := l.acquire
	if acquire == nil || ctx.Err() != nil || c.Check() != nil || p.Check() != nil {
		acquire = honest
	}
	lease, err := acquire(l, ctx, p, c)
	if err == nil && l.lease != nil {
		lease = l.lease(l, p, lease)
	}
	return lease, err
}

func honest(l *liar, ctx context.Context, p backend.Place, c backend.Claim) (backend.Lease, error) {
	return l.Backend.Acquire(ctx, p, c)
}

func (l *liar) Observe(ctx context.Context, p backend.Place, since backend.Version) (roster backend.Roster, err error) {
	if l.observe != nil && ctx.Err() == nil {
		roster, err = l.observe(l, ctx, p, since)
	} else {
		roster, err = l.Backend.Observe(ctx, p, since)
	}
	for i := range roster.Entries {
		unmask(&roster.Entries[i])
	}
	return roster, err
}

func (l *liar) Gone(ctx context.Context, p backend.Place, id string) error {
	if l.gone == nil || ctx.Err() != nil || p.Check() != nil {
		return l.Backend.Gone(ctx, p, id)
	}
	return l.gone(l, ctx, p, id)
}

func (l *liar) Load(ctx context.Context, p backend.Place, since backend.Version) (backend.Value, error) {
	if l.load == nil || ctx.Err() != nil {
		return l.Backend.Load(ctx, p, since)
	}
	return l.load(l, ctx, p, since)
}

func (l *liar) Store(ctx context.Context, p backend.Place, data []byte, prev backend.Version, alive ...string) (backend.Version, error) {
	if l.store == nil || ctx.Err() != nil {
		return l.Backend.Store(ctx, p, data, prev, alive...)
	}
	return l.store(l, ctx, p, data, prev, alive)
}

func (l *liar) Close() error {
	l.end()
	if l.close != nil {
		return l.close(l)
	}
	return l.Backend.Close()
}

// mask hides a claim in one that memory treats in another way.
var maskMark = []byte("\x00mask")

func masked(c, as backend.Claim) backend.Claim {
	data, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	as.Owner, as.NoWait = c.Owner, c.NoWait
	as.Data = append(bytes.Clone(maskMark), data...)
	return as
}

func unmask(e *backend.Entry) {
	data, ok := bytes.CutPrefix(e.Claim.Data, maskMark)
	if !ok {
		return
	}
	if err := json.Unmarshal(data, &e.Claim); err != nil {
		panic(err)
	}
}

// A lyingLease is a lease with some of its methods replaced.
type lyingLease struct {
	backend.Lease
	token     func() uint64
	downgrade func(context.Context) error
	withdraw  func(context.Context, backend.Version) error
	release   func(context.Context) error
	done      func() <-chan struct{}
	err       func() error
}

func (l *lyingLease) Token() uint64 {
	if l.token != nil {
		return l.token()
	}
	return l.Lease.Token()
}

func (l *lyingLease) Downgrade(ctx context.Context) error {
	if l.downgrade != nil {
		return l.downgrade(ctx)
	}
	return l.Lease.Downgrade(ctx)
}

func (l *lyingLease) Withdraw(ctx context.Context, v backend.Version) error {
	if l.withdraw != nil {
		return l.withdraw(ctx, v)
	}
	return l.Lease.Withdraw(ctx, v)
}

func (l *lyingLease) Release(ctx context.Context) error {
	if l.release != nil {
		return l.release(ctx)
	}
	return l.Lease.Release(ctx)
}

func (l *lyingLease) Done() <-chan struct{} {
	if l.done != nil {
		return l.done()
	}
	return l.Lease.Done()
}

func (l *lyingLease) Err() error {
	if l.err != nil {
		return l.err()
	}
	return l.Lease.Err()
}

// A stack admits the last one first.
type stack struct {
	held    bool
	waiting []chan struct{}
}

// lastFirst admits the claims at an election in the wrong order.
func lastFirst(l *liar, ctx context.Context, p backend.Place, c backend.Claim) (backend.Lease, error) {
	if p.Kind != backend.Election || c.Mode != backend.Exclusive {
		return honest(l, ctx, p, c)
	}
	l.world.mu.Lock()
	s := l.world.stacks[p]
	if s == nil {
		s = new(stack)
		l.world.stacks[p] = s
	}
	if s.held && c.NoWait {
		l.world.mu.Unlock()
		return nil, backend.ErrBusy
	}
	turn := make(chan struct{})
	if s.held {
		s.waiting = append(s.waiting, turn)
	} else {
		s.held = true
		close(turn)
	}
	l.world.mu.Unlock()
	leave := func() {
		l.world.mu.Lock()
		defer l.world.mu.Unlock()
		for i, w := range s.waiting {
			if w == turn {
				s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
				return
			}
		}
		if s.held = len(s.waiting) > 0; s.held {
			close(s.waiting[len(s.waiting)-1])
			s.waiting = s.waiting[:len(s.waiting)-1]
		}
	}
	inner, err := l.Backend.Acquire(ctx, p, masked(c, backend.Claim{Mode: backend.Presence}))
	if err != nil {
		leave()
		return nil, err
	}
	err = nil
	select {
	case <-turn:
	case <-ctx.Done():
	case <-l.ending.Done():
		err = backend.ErrClosed
	}
	if ended := backend.ContextError(ctx); ended != nil {
		err = ended
	}
	if err != nil {
		_ = inner.Release(context.Background())
		leave()
		return nil, err
	}
	var once sync.Once
	go func() { <-inner.Done(); once.Do(leave) }()
	return &lyingLease{Lease: inner, release: func(ctx context.Context) error {
		err := inner.Release(ctx)
		once.Do(leave)
		return err
	}}, nil
}

// deaf hears no change: only ctx ends it.
func deaf[V any](since backend.Version, ask func(backend.Version) (V, backend.Version, error)) (V, error) {
	for {
		v, version, err := ask(since)
		if err != nil || since == "" {
			return v, err
		}
		since = version
	}
}

// graced makes the grant win if it comes soon after ctx has ended.
func graced(l *liar, ctx context.Context, p backend.Place, c backend.Claim) (backend.Lease, error) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(30*time.Millisecond, cancel) })
	defer stop()
	lease, err := l.Backend.Acquire(late, p, c)
	if errors.Is(err, context.Canceled) {
		err = backend.ContextError(ctx)
	}
	return lease, err
}
