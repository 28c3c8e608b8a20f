package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
)

func roundChecks() []check {
	rows := []check{
		{name: "Rounds/AtSpeed", fn: roundsAtSpeed,
			why: "a barrier that is used again at once keeps its rounds apart: each has exactly its members"},
		{name: "Rounds/AtOnce", fn: roundsAtOnce,
			why: "parties that arrive at the same instant are all in one round, with nobody left over"},
		{name: "Rounds/ManyCancel", fn: roundsManyCancel,
			why: "who gave up is in nobody's list, and who is in a list has entered, however many give up at once"},
		{name: "Rounds/MoreThanParties", fn: roundsMoreThanParties,
			why: "with more clients than parties, rounds overlap, and each has exactly its members"},
	}
	for i := range rows {
		rows[i].tough = true
		rows[i].need = []need{kind(backend.Barrier)}
	}
	return rows
}

// A tally is what many parties of one barrier saw.
type tally struct {
	t       *T
	parties int
	clock   atomic.Int64 // orders what happens; time may stand still

	mu      sync.Mutex
	passes  []*pass
	excused map[string]int // Enters of an owner whose answer was lost: perhaps counted
}

// A pass is one party's way through one round.
type pass struct {
	owner                        string
	round                        *coord.Round
	called, entered, leave, left int64
}

func (y *tally) now() int64 { return y.clock.Add(1) }

// through enters and leaves. It returns the error of Enter.
func (y *tally) through(ctx context.Context, owner string, b coord.Barrier) error {
	p := &pass{owner: owner, called: y.now()}
	var err error
	if p.round, err = b.Enter(ctx); err != nil {
		if errors.Is(err, coord.ErrUnavailable) || errors.Is(err, coord.ErrLost) {
			y.excuse(owner)
		}
		return err
	}
	p.entered = y.now()
	y.mu.Lock()
	y.passes = append(y.passes, p)
	y.mu.Unlock()
	y.t.held(owner, p.round)
	p.leave = y.now()
	// The caller's ctx may end at any time; leaving is another matter.
	err = y.t.retry(func() error { return p.round.Leave(y.t.ctx) })
	p.left = y.now()
	if err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	return nil
}

func (y *tally) excuse(owner string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.excused == nil {
		y.excused = make(map[string]int)
	}
	y.excused[owner]++
}

// judge wants each round to have exactly its members, who were all there before
// one was let in, and were all about to leave before one was let out.
func (y *tally) judge() {
	byNumber := make(map[uint64][]*pass)
	if y.excused == nil {
		y.excused = make(map[string]int)
	}
	for _, p := range y.passes {
		byNumber[p.round.Number()] = append(byNumber[p.round.Number()], p)
	}
	in := make(map[string]uint64)
	for number, passes := range byNumber {
		members := passes[0].round.Members()
		if len(members) != y.parties || len(passes) > y.parties {
			y.t.Fatalf("round %d lists %d members, and %d parties entered it; want %d", number, len(members), len(passes), y.parties)
		}
		owners := make(map[string]int)
		for _, m := range members {
			owners[m.Owner]++
			if other, twice := in[m.ID]; twice {
				y.t.Fatalf("%s is in round %d and in round %d", m.ID, other, number)
			}
			in[m.ID] = number
		}
		for _, p := range passes {
			if got := p.round.Members(); !sameMembers(got, members) {
				y.t.Fatalf("in round %d one sees %v and another %v", number, members, got)
			}
			owners[p.owner]--
			if owners[p.owner] < 0 {
				y.t.Fatalf("%s entered round %d and is not in its list: %v", p.owner, number, members)
			}
			for _, q := range passes {
				if q.called > p.entered {
					y.t.Fatalf("%s was in round %d before %s had come", p.owner, number, q.owner)
				}
				if q.leave > p.left {
					y.t.Fatalf("%s was out of round %d before %s began to leave", p.owner, number, q.owner)
				}
			}
		}
		for owner, missing := range owners {
			if y.excused[owner] -= missing; missing > 0 && y.excused[owner] < 0 {
				y.t.Fatalf("round %d lists %s, which did not enter it: %v", number, owner, members)
			}
		}
	}
	y.t.Logf("%d rounds of %d", len(byNumber), y.parties)
}

// party opens a client whose members bear its name.
func (t *T) party(i int) (*client, string) {
	owner := fmt.Sprintf("party %d", i)
	return t.open(coord.WithOwner(owner)), owner
}

// run waits for all of these.
func (t *T) allEnd(all []*attempt[struct{}]) {
	for _, a := range all {
		if !within(t.patience()/2, a.done) {
			t.Fatalf("%s still waits after %v; all goroutines:\n%s", a.who, t.patience()/2, stacks())
		}
		if a.err != nil {
			t.Fatalf("%s: %v", a.who, a.err)
		}
	}
}

// MoonshotAI/checkpoint-engine#106 is of this class.
func roundsAtSpeed(t *T) {
	rounds := 1000
	if t.h.small {
		rounds = 20
	} else if t.h.Expect.Scope == backend.Network || t.h.flaky {
		rounds = 50
	}
	y := &tally{t: t, parties: 4}
	var all []*attempt[struct{}]
	for i := range y.parties {
		c, owner := t.party(i)
		b := c.Barrier(t.name, y.parties)
		all = append(all, beginError(t, owner, func(ctx context.Context) error {
			for range rounds {
				if err := t.retry(func() error { return y.through(ctx, owner, b) }); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	t.allEnd(all)
	y.judge()
	if len(y.passes) != rounds*y.parties {
		t.Errorf("%d passes; want %d", len(y.passes), rounds*y.parties)
	}
	t.open().empty(t.place(backend.Barrier))
}

func roundsAtOnce(t *T) {
	rounds := 50
	if t.h.small {
		rounds = 5
	} else if t.h.Expect.Scope > backend.Process {
		rounds = 10
	}
	cs := make([]*client, 5)
	owners := make([]string, len(cs))
	for i := range cs {
		cs[i], owners[i] = t.party(i)
	}
	for r := range rounds {
		y := &tally{t: t, parties: len(cs)}
		name := fmt.Sprintf("%s-%d", t.name, r)
		start := make(chan struct{})
		var all []*attempt[struct{}]
		for i, c := range cs {
			b := c.Barrier(name, y.parties)
			all = append(all, beginError(t, owners[i], func(ctx context.Context) error {
				<-start
				return t.retry(func() error { return y.through(ctx, owners[i], b) })
			}))
		}
		close(start)
		t.allEnd(all)
		y.judge()
		cs[0].empty(backend.Place{Kind: backend.Barrier, Name: name})
	}
}

func roundsManyCancel(t *T) {
	rounds := 30
	if t.h.small {
		rounds = 5
	} else if t.h.Expect.Scope > backend.Process {
		rounds = 8
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	t.roam(&tally{t: t, parties: 3}, 8, rounds, seed, func(r *rand.Rand) (time.Duration, bool) {
		return time.Duration(r.IntN(3000)) * time.Microsecond, r.IntN(2) == 0
	})
}

func roundsMoreThanParties(t *T) {
	rounds := 40
	if t.h.small {
		rounds = 6
	} else if t.h.Expect.Scope > backend.Process {
		rounds = 8
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	t.roam(&tally{t: t, parties: 4}, 11, rounds, seed, func(r *rand.Rand) (time.Duration, bool) {
		return 0, false
	})
}

// roam lets clients enter and leave, and give up when give says so, until each
// has tried so many times. Then fewer are left than make a round.
func (t *T) roam(y *tally, clients, rounds int, seed uint64, give func(*rand.Rand) (time.Duration, bool)) {
	ctx, stop := context.WithCancel(t.ctx)
	defer stop()
	var finished sync.WaitGroup
	var all []*attempt[struct{}]
	for i := range clients {
		c, owner := t.party(i)
		b := c.Barrier(t.name, y.parties)
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		finished.Add(1)
		all = append(all, beginError(t, owner, func(context.Context) error {
			defer finished.Done()
			for range rounds {
				call, cancel := context.WithCancel(ctx)
				if after, ok := give(random); ok {
					time.AfterFunc(after, cancel)
				}
				err := t.retry(func() error { return y.through(call, owner, b) })
				cancel()
				if err != nil && !errors.Is(err, context.Canceled) {
					return err
				}
			}
			return nil
		}))
	}
	// When fewer go on than make a round, the rest can only be told to stop.
	t.tasks.Go(func() {
		for {
			left := 0
			for _, a := range all {
				select {
				case <-a.done:
				default:
					left++
				}
			}
			if left < y.parties {
				time.Sleep(20 * time.Millisecond)
				stop()
				return
			}
			select {
			case <-t.ctx.Done():
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	finished.Wait()
	t.allEnd(all)
	y.judge()
	t.open().empty(t.place(backend.Barrier))
}
