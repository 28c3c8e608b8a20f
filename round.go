package coord

import (
	"context"
	"math/rand/v2"
	"slices"
)

// A Round is a party's place inside a barrier.
type Round struct {
	barrier *barrier
	hold    *Hold
	*seating
}

// Number identifies the round among all rounds of the barrier. It grows from
// round to round, though not by one, and is the same for all members.
func (r *Round) Number() uint64 { return r.number() }

// Members lists who is in the round, in order of arrival. Their Data is nil,
// and in rounds of more than 1,000 parties their Owner is empty.
func (r *Round) Members() []Member { return slices.Clone(r.members()) }

// Done is closed when this party is no longer inside: it left, or its session
// was lost.
func (r *Round) Done() <-chan struct{} { return r.hold.Done() }

// Err is nil while inside. Afterwards it is ErrReleased, or ErrLost with its
// cause.
func (r *Round) Err() error { return r.hold.Err() }

// Leave waits until every member of the round has left or died. When ctx ends
// first, this party has left all the same; a further Leave waits on. Parties
// of later rounds delay nobody. If this party was lost while inside, so that
// the others did not wait for it, Leave returns ErrLost.
func (r *Round) Leave(ctx context.Context) error {
	const op = "leave barrier"
	if err := r.hold.Release(); err != nil {
		return err
	}
	b := r.barrier
	for waited := false; ; waited = true {
		line, err := b.observe(ctx, op, "")
		if err != nil {
			return err
		}
		inside := remaining(r.members(), line.Entries)
		if len(inside) == 0 {
			switch {
			case len(line.Entries) > 0:
			case waited: // then the last to leave has tidied up, if it did not crash
				b.tidyAfter(ctx)
			default:
				b.remove(ctx, r.version)
			}
			return nil
		}
		// A random one: however the members leave, each waits about ln n
		// times, and there is no herd.
		id := inside[rand.IntN(len(inside))]
		if err := b.c.backend.Gone(ctx, b.place, id); err != nil {
			return b.fail(op, err)
		}
		if len(inside) == 1 {
			b.tidyAfter(ctx)
			return nil
		}
	}
}
