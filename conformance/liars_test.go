package conformance

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gocoord/coord/backend"
)

// A lie is a fault that a backend may have.
type lie struct {
	name string
	h    Harness
}

func lies() []lie {
	remotes := func(lie func(*remote)) Harness {
		h := onRemote()
		open := h.Open
		h.Open = func(tb testing.TB) backend.Backend {
			r := open(tb).(*remote)
			lie(r)
			return r
		}
		return h
	}
	return []lie{
		{"GrantsTwice", liars(func(l *liar) {
			l.acquire = func(l *liar, ctx context.Context, p backend.Place, c backend.Claim) (backend.Lease, error) {
				if c.Mode == backend.Exclusive {
					c = masked(c, backend.Claim{Mode: backend.Shared})
				}
				return l.Backend.Acquire(ctx, p, c)
			}
		})},
		{"LeavesAnEntryOnCancel", liars(func(l *liar) {
			l.acquire = func(l *liar, ctx context.Context, p backend.Place, c backend.Claim) (backend.Lease, error) {
				type answer struct {
					lease backend.Lease
					err   error
				}
				ch := make(chan answer, 1)
				go func() {
					lease, err := l.Backend.Acquire(context.WithoutCancel(ctx), p, c)
					ch <- answer{lease, err}
				}()
				select {
				case a := <-ch:
					return a.lease, a.err
				case <-ctx.Done():
					return nil, backend.ContextError(ctx)
				}
			}
		})},
		{"CancelLoses", liars(func(l *liar) { l.acquire = graced })},
		{"DeafObserve", liars(func(l *liar) {
			l.observe = func(l *liar, ctx context.Context, p backend.Place, since backend.Version) (backend.Roster, error) {
				return deaf(since, func(since backend.Version) (backend.Roster, backend.Version, error) {
					r, err := l.Backend.Observe(ctx, p, since)
					return r, r.Version, err
				})
			}
		})},
		{"SharesData", liars(func(l *liar) {
			l.observe = func(l *liar, ctx context.Context, p backend.Place, since backend.Version) (backend.Roster, error) {
				r, err := l.Backend.Observe(ctx, p, since)
				for i := range r.Entries {
					e := &r.Entries[i]
					shared, _ := l.world.data.LoadOrStore(e.ID, e.Claim.Data)
					e.Claim.Data = shared.([]byte)
				}
				return r, err
			}
		})},
		{"DeafLoad", liars(func(l *liar) {
			l.load = func(l *liar, ctx context.Context, p backend.Place, since backend.Version) (backend.Value, error) {
				return deaf(since, func(since backend.Version) (backend.Value, backend.Version, error) {
					v, err := l.Backend.Load(ctx, p, since)
					return v, v.Version, err
				})
			}
		})},
		{"StaleLoad", liars(func(l *liar) {
			l.load = func(l *liar, ctx context.Context, p backend.Place, since backend.Version) (backend.Value, error) {
				v, err := l.Backend.Load(ctx, p, since)
				l.mu.Lock()
				defer l.mu.Unlock()
				old, seen := l.stale[p]
				l.stale[p] = v
				if err == nil && since == "" && seen && old.Version != v.Version {
					return old, nil
				}
				return v, err
			}
		})},
		{"GoneReturnsEarly", liars(func(l *liar) {
			l.gone = func(l *liar, ctx context.Context, p backend.Place, id string) error {
				r, err := l.Backend.Observe(ctx, p, "")
				if err == nil && r.Index(id) >= 0 {
					_, err = l.Backend.Observe(ctx, p, r.Version)
				}
				return err
			}
		})},
		{"DeafGone", liars(func(l *liar) {
			l.gone = func(l *liar, ctx context.Context, p backend.Place, id string) error {
				r, err := l.Backend.Observe(ctx, p, "")
				if err != nil || r.Index(id) < 0 {
					return err
				}
				select {
				case <-ctx.Done():
					return backend.ContextError(ctx)
				case <-l.ending.Done():
					return backend.ErrClosed
				}
			}
		})},
		{"ConstantToken", liars(func(l *liar) {
			l.lease = func(_ *liar, _ backend.Place, inner backend.Lease) backend.Lease {
				return &lyingLease{Lease: inner, token: func() uint64 { return 1 }}
			}
		})},
		{"Reentrant", liars(func(l *liar) {
			l.acquire = func(l *liar, ctx context.Context, p backend.Place, c backend.Claim) (backend.Lease, error) {
				l.mu.Lock()
				held := l.holds[p]
				l.mu.Unlock()
				if c.Mode == backend.Exclusive && held != nil && held.Err() == nil {
					c = masked(c, backend.Claim{Mode: backend.Presence})
				}
				lease, err := l.Backend.Acquire(ctx, p, c)
				if err == nil && c.Mode == backend.Exclusive {
					l.mu.Lock()
					l.holds[p] = lease
					l.mu.Unlock()
				}
				return lease, err
			}
		})},
		{"TryWaits", liars(func(l *liar) {
			l.acquire = func(l *liar, ctx context.Context, p backend.Place, c backend.Claim) (backend.Lease, error) {
				c.NoWait = false
				return l.Backend.Acquire(ctx, p, c)
			}
		})},
		{"TryJumps", liars(func(l *liar) {
			l.acquire = func(l *liar, ctx context.Context, p backend.Place, c backend.Claim) (backend.Lease, error) {
				lease, err := l.Backend.Acquire(ctx, p, c)
				if !errors.Is(err, backend.ErrBusy) || c.Mode != backend.Shared {
					return lease, err
				}
				r, err := l.Backend.Observe(ctx, p, "")
				if err != nil || r.Entries[0].Claim.Mode != backend.Shared {
					return nil, backend.ErrBusy
				}
				return l.Backend.Acquire(ctx, p, masked(c, backend.Claim{Mode: backend.Presence}))
			}
		})},
		{"TryLeavesAnEntry", liars(func(l *liar) {
			l.acquire = func(l *liar, ctx context.Context, p backend.Place, c backend.Claim) (backend.Lease, error) {
				lease, err := l.Backend.Acquire(ctx, p, c)
				if errors.Is(err, backend.ErrBusy) {
					_, _ = l.Backend.Acquire(context.WithoutCancel(ctx), p, masked(c, backend.Claim{Mode: backend.Presence}))
				}
				return lease, err
			}
		})},
		{"LastFirst", liars(func(l *liar) { l.acquire = lastFirst })},
		{"WeightsIgnored", liars(func(l *liar) {
			l.acquire = func(l *liar, ctx context.Context, p backend.Place, c backend.Claim) (backend.Lease, error) {
				if c.Mode == backend.Permit {
					c = masked(c, permits(1, c.Limit))
				}
				return l.Backend.Acquire(ctx, p, c)
			}
		})},
		{"LimitsIgnored", liars(func(l *liar) {
			l.acquire = func(l *liar, ctx context.Context, p backend.Place, c backend.Claim) (backend.Lease, error) {
				lease, err := l.Backend.Acquire(ctx, p, c)
				if errors.Is(err, backend.ErrMismatch) {
					return l.Backend.Acquire(ctx, p, masked(c, backend.Claim{Mode: backend.Presence}))
				}
				return lease, err
			}
		})},
		{"StoreIgnoresAlive", liars(func(l *liar) {
			l.store = func(l *liar, ctx context.Context, p backend.Place, data []byte, prev backend.Version, _ []string) (backend.Version, error) {
				return l.Backend.Store(ctx, p, data, prev)
			}
		})},
		{"StoreIgnoresPrev", liars(func(l *liar) {
			l.store = func(l *liar, ctx context.Context, p backend.Place, data []byte, prev backend.Version, alive []string) (backend.Version, error) {
				v, err := l.Backend.Load(ctx, p, "")
				if err != nil {
					return "", err
				}
				return l.Backend.Store(ctx, p, data, v.Version, alive...)
			}
		})},
		{"WithdrawIgnoresVersion", liars(func(l *liar) {
			l.lease = func(_ *liar, _ backend.Place, inner backend.Lease) backend.Lease {
				return &lyingLease{Lease: inner, withdraw: func(ctx context.Context, _ backend.Version) error {
					if err := backend.ContextError(ctx); err != nil {
						return err
					}
					return inner.Release(ctx)
				}}
			}
		})},
		{"DowngradeReleases", liars(func(l *liar) {
			l.lease = func(l *liar, p backend.Place, inner backend.Lease) backend.Lease {
				now := &lyingLease{Lease: inner}
				now.downgrade = func(ctx context.Context) error {
					if err := inner.Downgrade(ctx); err != nil || p.Kind != backend.RWMutex {
						return err
					}
					// It comes back, at the end of the line.
					if err := now.Lease.Release(ctx); err != nil {
						return err
					}
					again, err := l.Backend.Acquire(ctx, p, sharedClaim)
					if err == nil {
						now.Lease = again
					}
					return err
				}
				return now
			}
		})},
		{"ReleasesByName", liars(func(l *liar) {
			l.lease = func(l *liar, p backend.Place, inner backend.Lease) backend.Lease {
				l.world.mu.Lock()
				l.world.holders[p] = inner
				l.world.mu.Unlock()
				return &lyingLease{Lease: inner, release: func(ctx context.Context) error {
					if inner.Err() != nil {
						l.world.mu.Lock()
						now := l.world.holders[p]
						l.world.mu.Unlock()
						return now.Release(ctx)
					}
					return inner.Release(ctx)
				}}
			}
		})},
		{"ReleaseTwiceFails", liars(func(l *liar) {
			l.lease = func(_ *liar, _ backend.Place, inner backend.Lease) backend.Lease {
				return &lyingLease{Lease: inner, release: func(ctx context.Context) error {
					if err := inner.Err(); err != nil {
						return err
					}
					return inner.Release(ctx)
				}}
			}
		})},
		{"CloseLeavesHolds", liars(func(l *liar) {
			l.close = func(l *liar) error { return nil }
			l.acquire = func(l *liar, ctx context.Context, p backend.Place, c backend.Claim) (backend.Lease, error) {
				both, cancel := context.WithCancel(ctx)
				defer cancel()
				defer context.AfterFunc(l.ending, cancel)()
				lease, err := l.Backend.Acquire(both, p, c)
				if err != nil && l.ending.Err() != nil {
					return nil, backend.ErrClosed
				}
				return lease, err
			}
		})},
		{"ClosedWaitIsAGrant", liars(func(l *liar) {
			l.acquire = func(l *liar, ctx context.Context, p backend.Place, c backend.Claim) (backend.Lease, error) {
				waiting := l.ending.Err() == nil
				lease, err := l.Backend.Acquire(ctx, p, c)
				if waiting && errors.Is(err, backend.ErrClosed) {
					open := make(chan struct{})
					return &lyingLease{done: func() <-chan struct{} { return open }, err: func() error { return nil },
						token: func() uint64 { return 1 << 62 }, release: func(context.Context) error { return nil }}, nil
				}
				return lease, err
			}
		})},

		{"SilentLoss", remotes(func(r *remote) { r.silent = true })},
		{"LateDone", remotes(func(r *remote) { r.late = time.Second })},
		{"LosesAtABlip", remotes(func(r *remote) { r.nervous = true })},
		{"KeepsTheCrashed", remotes(func(r *remote) { r.keeps = true })},
		{"DeafToDeadlines", remotes(func(r *remote) { r.deafness = true })},
	}
}

// A suite is worth what it catches: each lie is seen by the checks that are
// there for it, and by no others.
func TestLiars(t *testing.T) {
	for _, lie := range lies() {
		t.Run(lie.name, func(t *testing.T) {
			h := lie.h.withDefaults()
			h.small, h.lies = true, true
			expected := expectation(seenBy[lie.name])
			failed := make(map[string]bool)
			for _, c := range checks() {
				r := h.judge(t, c)
				if failed[c.name] = len(r.failures) > 0; !failed[c.name] {
					continue
				}
				if _, ok := expected[c.name]; !ok {
					t.Errorf("%s fails and is not named for it: %s", c.name, r.failures[0])
				}
				t.Logf("%s: %.200s", c.name, strings.TrimSpace(r.failures[0]))
			}
			for name, certain := range expected {
				if _, ok := failed[name]; !ok {
					t.Errorf("there is no check %s", name)
				} else if certain && !failed[name] {
					t.Errorf("%s does not see it", name)
				}
			}
		})
	}
}

// expectation reads a text of seenBy: the names of checks, and whether each has
// to see the fault or only may.
func expectation(text string) map[string]bool {
	out := make(map[string]bool)
	for line := range strings.Lines(text) {
		subjects, names, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			continue
		}
		if subjects == "Exclusive" {
			subjects = "Lock,RWLock.Lock,Semaphore1,Election"
		}
		for _, name := range strings.Fields(names) {
			for subject := range strings.SplitSeq(subjects, ",") {
				check, chance := strings.CutSuffix(name, "?")
				out[subject+"/"+check] = !chance
			}
		}
	}
	return out
}
