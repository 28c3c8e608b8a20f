package coord

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gocoord/coord/backend"
)

// The barrier runs on a line of presences and one register. The register lists
// the members of each round that still has somebody in line, and the mark: the
// arrival number of the last member ever seated. Whoever arrives looks at the
// line; who finds enough entries after the mark closes a round, by a
// compare-and-set that also fails if one of the chosen has gone. From then on
// everybody trusts the list and never counts again. A party that gives up takes
// its entry out provided that the register has not moved, so that it either was
// counted or was not. barrier_model_test.go visits every interleaving.

// Barrier returns the barrier of this name for a number of parties. All clients
// must give the same number; one that meets others waiting with another number
// fails with ErrMismatch. More may arrive than a round takes: they wait for the
// next one, and do not delay those who leave.
func (c *Client) Barrier(name string, parties int) Barrier {
	var err error
	if parties < 1 {
		err = fmt.Errorf("%w: a barrier of %d parties, want at least 1", ErrInvalid, parties)
	}
	return &barrier{c.handle(backend.Barrier, name, err), parties}
}

type barrier struct {
	handle
	parties int
}

const opEnter = "enter barrier"

func (b *barrier) Enter(ctx context.Context) (*Round, error) {
	hold, err := b.arrive(ctx)
	if err != nil {
		return nil, err
	}
	waiting, cancel := hold.Context(ctx)
	seat, err := b.seat(waiting, hold.lease)
	cancel()
	if ended := hold.lease.Err(); ended != nil {
		if errors.Is(ended, ErrReleased) {
			ended = ErrClosed // only Close can have done it
		}
		return nil, b.fail(opEnter, ended)
	}
	if err != nil {
		if ended := backend.ContextError(ctx); ended != nil {
			err = ended
		}
		if seat, err = b.withdraw(hold.lease, err); err != nil {
			return nil, b.fail(opEnter, err)
		}
	}
	return &Round{barrier: b, hold: hold, seating: seat}, nil
}

func (b *barrier) Wait(ctx context.Context) error {
	round, err := b.Enter(ctx)
	if err != nil {
		return err
	}
	// It has passed, whatever becomes of its entry: that goes in the
	// background or with the session.
	if round.hold.Release() == nil {
		tidying, cancel := b.c.cleanup()
		defer cancel()
		b.tidy(tidying, round.version)
	}
	return nil
}

// arrive puts the party in line. Others may count it as soon as it is there, so
// the request is not cut off with ctx: its answer is awaited, and then it is
// withdrawn in order.
func (b *barrier) arrive(ctx context.Context) (*Hold, error) {
	if err := b.ready(ctx); err != nil {
		return nil, b.fail(opEnter, err)
	}
	settling, cancel := b.c.settle(ctx)
	defer cancel()
	hold, err := b.acquire(settling, opEnter, backend.Claim{Mode: backend.Presence, Limit: int64(b.parties)})
	if ended := backend.ContextError(ctx); err != nil && ended != nil {
		return nil, b.fail(opEnter, gather(ended, fmt.Errorf("perhaps counted: %w", b.c.released(err))))
	}
	return hold, err
}

// seat waits until a round lists the entry, closing rounds where it can.
func (b *barrier) seat(ctx context.Context, me backend.Lease) (*seating, error) {
	// What this client last saw of the register is most often still so. If not,
	// the next step finds out: a store fails, or a load does not wait.
	reg := b.c.registers.last(b.place)
	guessed := reg != nil
	var (
		since  backend.Version
		looked bool
		mark   uint64 // the mark when this party last looked at the line
		err    error
	)
	for ; ; guessed = false {
		if !guessed {
			if reg, err = b.load(ctx, since); err != nil {
				return nil, err
			}
		}
		if s := reg.seating(me.ID()); s != nil {
			return s, nil
		}
		since = reg.version
		if looked && mark == reg.mark {
			continue
		}
		// Who arrives later looks, too; so a new look is owed only when the
		// mark has moved.
		seat, moved, err := b.closeRound(ctx, reg, me)
		if guessed && errors.Is(err, ErrMismatch) {
			moved, err = true, nil // those may be inside since
		}
		if seat != nil || err != nil {
			return seat, err
		}
		if moved {
			since = ""
			continue
		}
		looked, mark = true, reg.mark
	}
}

// closeRound seats the first parties after the mark if there are enough. It
// returns the seating if this party is in it, and otherwise whether the
// register has to be read again.
func (b *barrier) closeRound(ctx context.Context, reg *register, me backend.Lease) (*seating, bool, error) {
	line, err := b.c.backend.Observe(ctx, b.place, "")
	if err != nil {
		return nil, false, err
	}
	chosen, away, err := b.choose(line, reg.mark, me)
	if err != nil || len(chosen) < b.parties {
		return nil, false, err
	}
	if moved, err := b.yield(ctx, reg.version, away); moved || err != nil {
		return nil, moved, err
	}
	next := reg.with(chosen, line.Entries)
	data, err := next.encode()
	if err != nil {
		return nil, false, err
	}
	version, err := b.c.backend.Store(ctx, b.place, data, reg.version, ids(chosen)...)
	switch {
	case err == nil:
		next.version, next.rounds[len(next.rounds)-1].version = version, version
		b.c.registers.keep(b.place, next)
		return next.seating(me.ID()), true, nil
	case errors.Is(err, backend.ErrConflict), errors.Is(err, ErrUnavailable):
		return nil, true, nil // perhaps done, or by another; the list will tell
	default:
		return nil, false, err
	}
}

// choose returns the first parties that no round has seated yet, and how many
// places this party is away from the last of them.
func (b *barrier) choose(line backend.Roster, mark uint64, me backend.Lease) (chosen []backend.Entry, away int, err error) {
	chosen = make([]backend.Entry, 0, b.parties)
	id, waiting, mine := me.ID(), 0, 0
	for i := range line.Entries {
		e := &line.Entries[i]
		if e.Token <= mark {
			continue
		}
		if parties := int(e.Claim.Limit); parties != b.parties {
			if e.Token < me.Token() {
				return nil, 0, fmt.Errorf("%w: %d parties here, and %s waits for %d under this name; give all clients the same number",
					ErrMismatch, b.parties, e.Claim.Owner, parties)
			}
			continue // it will find out
		}
		if waiting++; e.ID == id {
			mine = waiting
		}
		if len(chosen) < b.parties {
			chosen = append(chosen, *e)
		}
	}
	return chosen, max(mine-b.parties, b.parties-mine), nil
}

// stagger is what each place in line adds to a party's patience in yield.
const stagger = 20 * time.Millisecond

// yield leaves it to the last party of a full round to close it, or else to
// those next to it, so that not all who see it full try at once. It reports
// whether the register has moved meanwhile.
func (b *barrier) yield(ctx context.Context, since backend.Version, away int) (bool, error) {
	if away == 0 {
		return false, nil
	}
	patient, cancel := context.WithTimeout(ctx, time.Duration(away)*stagger)
	defer cancel()
	_, err := b.c.backend.Load(patient, b.place, since)
	if err != nil && patient.Err() != nil && ctx.Err() == nil {
		return false, nil // nobody has; so be it
	}
	return err == nil, err
}

// withdraw takes the entry out of line, unless the others have counted it: then
// the party has entered after all.
func (b *barrier) withdraw(me backend.Lease, cause error) (*seating, error) {
	ctx, cancel := b.c.cleanup()
	defer cancel()
	for {
		reg, err := b.load(ctx, "")
		if err == nil {
			if s := reg.seating(me.ID()); s != nil {
				return s, nil
			}
			err = me.Withdraw(ctx, reg.version)
		}
		switch {
		case err == nil:
			b.tidy(ctx, reg.version)
			return nil, cause
		case errors.Is(err, backend.ErrConflict):
			continue
		case errors.Is(err, ErrUnavailable) && pause(ctx) && me.Err() == nil:
			continue
		case me.Err() != nil && errors.Is(err, me.Err()):
			return nil, gather(cause, err)
		}
		_ = me.Release(ctx) // goes on in the background
		return nil, gather(cause, fmt.Errorf("could not withdraw, and was perhaps counted: %w", b.c.released(err)))
	}
}

// tidy removes the register when nobody is in line, so that an idle barrier
// leaves nothing behind. It may be late but never early: the version was seen
// before the empty line, and any round that closes changes it.
func (b *barrier) tidy(ctx context.Context, version backend.Version) {
	if line, err := b.c.backend.Observe(ctx, b.place, ""); err == nil && len(line.Entries) == 0 {
		b.remove(ctx, version)
	}
}

// tidyAfter is tidy for who has not seen the register lately.
func (b *barrier) tidyAfter(ctx context.Context) {
	if reg, err := b.load(ctx, ""); err == nil && !reg.absent {
		b.tidy(ctx, reg.version)
	}
}

// remove is the rest of tidy for who has seen the empty line.
func (b *barrier) remove(ctx context.Context, version backend.Version) {
	none, err := b.c.backend.Store(ctx, b.place, nil, version)
	switch {
	case err == nil:
		b.c.registers.keep(b.place, &register{version: none, absent: true})
	case errors.Is(err, backend.ErrConflict):
		b.tidyAfter(ctx)
	}
}
