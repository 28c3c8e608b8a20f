package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
)

func historyChecks() []check {
	return []check{
		{name: "History/Lock", need: []need{kind(backend.RWMutex)}, fn: historyLock, tough: true,
			why: "whatever many clients do with a read/write lock, one order explains it: no writer beside anybody, tokens that grow"},
		{name: "History/Election", need: []need{kind(backend.Election)}, fn: historyElection, tough: true,
			why: "whatever many candidates do, one order explains it: one leader at a time, tokens that grow"},
		{name: "History/Semaphore", need: []need{kind(backend.Semaphore)}, fn: historySemaphore, tough: true,
			why: "whatever many clients do with a semaphore, one order explains it: never more than its limit"},
		{name: "History/Register", need: []need{kind(backend.Barrier)}, fn: historyRegister, tough: true,
			why: "whatever many clients load and store, one order explains it: registers are linearizable"},
	}
}

// A history is what many clients did, in the order of one clock. Virtual time
// may stand still, so the clock only counts.
type history struct {
	t     *T
	clock atomic.Int64

	mu  sync.Mutex
	ops []porcupine.Operation
}

func (y *history) now() int64 { return y.clock.Add(1) }

// add records what client did between call and now.
func (y *history) add(client int, call int64, in, out any) {
	y.addUntil(client, call, in, out, y.now())
}

func (y *history) addUntil(client int, call int64, in, out any, end int64) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.ops = append(y.ops, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: end})
}

// judge wants an order that explains the history.
func (y *history) judge(m porcupine.Model) {
	if len(y.ops) == 0 {
		y.t.Fatalf("nothing was done")
	}
	switch porcupine.CheckOperationsTimeout(m, y.ops, time.Minute) {
	case porcupine.Ok:
		y.t.Logf("%d operations", len(y.ops))
	case porcupine.Unknown:
		y.t.Logf("%d operations are too many to be judged", len(y.ops))
	default:
		for _, op := range y.ops {
			y.t.Logf("client %d, %d to %d: %s", op.ClientId, op.Call, op.Return, m.DescribeOperation(op.Input, op.Output))
		}
		y.t.Errorf("no order explains what %d operations answered (they are in the log)", len(y.ops))
	}
}

// steps is how much each client does. Together it is what the checker can
// judge within seconds.
func (t *T) steps() int {
	switch {
	case t.h.small:
		return 6
	case t.h.Expect.Scope > backend.Process:
		return 12
	}
	return 25
}

// roamers runs clients that each do so many steps, with chance of their own.
func (t *T) roamers(clients int, step func(ctx context.Context, i int, c *client, r *rand.Rand) error) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	steps := t.steps()
	var all []*attempt[struct{}]
	for i := range clients {
		c := t.open()
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		all = append(all, beginError(t, fmt.Sprintf("client %d", i), func(ctx context.Context) error {
			for range steps {
				if err := step(ctx, i, c, random); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	t.allEnd(all)
}

// impatient is a ctx that ends, for one in three, at about the time of a grant.
func impatient(ctx context.Context, r *rand.Rand) (context.Context, context.CancelFunc) {
	if r.IntN(3) > 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(r.IntN(2000))*time.Microsecond)
}

// gaveUp reports whether a claim failed as it may.
func (t *T) gaveUp(err error) bool {
	return errors.Is(err, coord.ErrBusy) || errors.Is(err, context.DeadlineExceeded) ||
		t.h.flaky && errors.Is(err, coord.ErrUnavailable)
}

// giveBack releases, and records it. A release of which nobody knows when it
// took effect may have done so at any time.
func (y *history) giveBack(i int, h *coord.Hold, op lockOp) {
	call := y.now()
	err := h.Release()
	op.kind = opGive
	if y.t.h.flaky && errors.Is(err, coord.ErrUnavailable) {
		y.addUntil(i, call, op, nil, math.MaxInt64)
		return
	}
	y.t.ok("Release", err)
	y.add(i, call, op, nil)
}

// dwell holds for a moment, so that others meet it.
func dwell(r *rand.Rand) {
	if r.IntN(2) == 0 {
		time.Sleep(time.Duration(r.IntN(300)) * time.Microsecond)
	}
}

func historyLock(t *T) {
	y := &history{t: t}
	t.roamers(6, func(ctx context.Context, i int, c *client, r *rand.Rand) error {
		l := c.RWLocker(t.name)
		op := lockOp{kind: opTake, shared: r.IntN(2) == 0}
		lock := []func(context.Context) (*coord.Hold, error){l.Lock, l.TryLock, l.RLock, l.TryRLock}
		choice := 0
		if op.shared {
			choice = 2
		}
		if r.IntN(4) == 0 {
			choice++
		}
		call := y.now()
		limited, cancel := impatient(ctx, r)
		h, err := lock[choice](limited)
		cancel()
		if err != nil {
			if t.gaveUp(err) {
				return nil
			}
			return err
		}
		op.token = h.Token()
		y.add(i, call, op, nil)
		dwell(r)
		if !op.shared && r.IntN(3) == 0 {
			call := y.now()
			if err := h.Downgrade(ctx); err != nil {
				return err
			}
			op.kind, op.shared = opDowngrade, true
			y.add(i, call, op, nil)
			dwell(r)
		}
		y.giveBack(i, h, op)
		return nil
	})
	y.judge(lockModel)
}

func historyElection(t *T) {
	y := &history{t: t}
	t.roamers(5, func(ctx context.Context, i int, c *client, r *rand.Rand) error {
		e := c.Election(t.name)
		campaign := e.Campaign
		if r.IntN(4) == 0 {
			campaign = e.TryCampaign
		}
		call := y.now()
		limited, cancel := impatient(ctx, r)
		h, err := campaign(limited, nil)
		cancel()
		if err != nil {
			if t.gaveUp(err) {
				return nil
			}
			return err
		}
		op := lockOp{kind: opTake, token: h.Token()}
		y.add(i, call, op, nil)
		dwell(r)
		y.giveBack(i, h, op)
		return nil
	})
	y.judge(lockModel)
}

func historySemaphore(t *T) {
	const limit = 4
	y := &history{t: t}
	t.roamers(6, func(ctx context.Context, i int, c *client, r *rand.Rand) error {
		s := c.Semaphore(t.name, limit)
		acquire := s.Acquire
		if r.IntN(4) == 0 {
			acquire = s.TryAcquire
		}
		op := lockOp{kind: opTake, weight: 1 + r.Int64N(limit)}
		call := y.now()
		limited, cancel := impatient(ctx, r)
		h, err := acquire(limited, op.weight)
		cancel()
		if err != nil {
			if t.gaveUp(err) {
				return nil
			}
			return err
		}
		y.add(i, call, op, nil)
		dwell(r)
		y.giveBack(i, h, op)
		return nil
	})
	y.judge(semaphoreModel(limit))
}

func historyRegister(t *T) {
	y := &history{t: t}
	p := t.place(backend.Barrier)
	var names atomic.Int64
	t.roamers(5, func(ctx context.Context, i int, c *client, r *rand.Rand) error {
		call := y.now()
		v, err := c.b.Load(ctx, p, "")
		if err != nil {
			if t.gaveUp(err) {
				return nil
			}
			return err
		}
		y.add(i, call, registerOp{kind: opLoad}, string(v.Data))
		dwell(r)
		op := registerOp{kind: opStore, prev: string(v.Data), data: fmt.Sprint(names.Add(1))}
		call = y.now()
		_, err = c.b.Store(ctx, p, []byte(op.data), v.Version)
		switch {
		case err == nil:
			y.add(i, call, op, stored)
		case errors.Is(err, backend.ErrConflict):
			y.add(i, call, op, conflict)
		case t.h.flaky && errors.Is(err, backend.ErrUnavailable):
			y.addUntil(i, call, op, unknown, math.MaxInt64)
		default:
			return err
		}
		return nil
	})
	y.judge(registerModel)
}
