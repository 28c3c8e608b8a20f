package coord

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gocoord/coord/backend"
)

// A Round is a party's place inside a barrier.
type Round struct {
	barrier *barrier
	hold    *Hold
	version backend.Version // of the register, when the round was seen in it
	members []Member
	number  uint64
}

// Number identifies the round among all rounds of the barrier. It grows from
// round to round, though not by one, and is the same for all members.
func (r *Round) Number() uint64 { return r.number }

// Members lists who is in the round, in order of arrival. Their Data is nil,
// and in rounds of more than 1,000 parties their Owner is empty.
func (r *Round) Members() []Member { return slices.Clone(r.members) }

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
	for {
		line, err := b.observe(ctx, op, "")
		if err != nil {
			return err
		}
		remaining := r.remaining(line)
		if len(remaining) == 0 {
			if len(line.Entries) == 0 {
				b.tidy(ctx, r.version)
			}
			return nil
		}
		// A random one: however the members leave, each waits about ln n
		// times, and there is no herd.
		id := remaining[rand.IntN(len(remaining))]
		if err := b.c.backend.Gone(ctx, b.place, id); err != nil {
			return b.fail(op, err)
		}
	}
}

// remaining lists the round's members that are in line.
func (r *Round) remaining(line backend.Roster) []string {
	inside := make(map[string]bool, len(r.members))
	for _, m := range r.members {
		inside[m.ID] = true
	}
	var ids []string
	for _, e := range line.Entries {
		if inside[e.ID] {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// register is the content of a barrier's register.
type register struct {
	Mark   uint64    `json:"mark"`   // arrival number of the last member ever seated
	Rounds []seating `json:"rounds"` // those with somebody in line

	version backend.Version
	absent  bool
}

// seating is one round: its members in order of arrival. Its number is the
// mark it set, which grows even when the register was removed in between.
type seating struct {
	Number uint64   `json:"n"`
	IDs    []string `json:"ids"`
	Tokens []uint64 `json:"tokens"`
	Owners []string `json:"owners,omitempty"`

	version backend.Version
}

const maxOwners = 1000 // members whose owners are worth their bytes in the register

func (b *barrier) load(ctx context.Context, since backend.Version) (*register, error) {
	v, err := b.c.backend.Load(ctx, b.place, since)
	if err != nil {
		return nil, err
	}
	reg := &register{version: v.Version, absent: v.Data == nil}
	if reg.absent {
		return reg, nil
	}
	if err := json.Unmarshal(v.Data, reg); err != nil {
		return nil, fmt.Errorf("%w: the register holds what no barrier of this library wrote (%w); use another name or remove it", ErrMismatch, err)
	}
	return reg, nil
}

// seating returns the round that lists the entry, or nil.
func (reg *register) seating(id string) *seating {
	for i := range reg.Rounds {
		if s := &reg.Rounds[i]; slices.Contains(s.IDs, id) {
			s.version = reg.version
			return s
		}
	}
	return nil
}

// with returns the register with one more round, and without those that nobody
// in line is left of.
func (reg *register) with(chosen []backend.Entry, line backend.Roster) *register {
	s := seating{Number: chosen[len(chosen)-1].Token}
	for _, e := range chosen {
		s.IDs = append(s.IDs, e.ID)
		s.Tokens = append(s.Tokens, e.Token)
		if len(chosen) <= maxOwners {
			s.Owners = append(s.Owners, e.Claim.Owner)
		}
	}
	next := &register{Mark: s.Number}
	present := make(map[string]bool, len(line.Entries))
	for _, e := range line.Entries {
		present[e.ID] = true
	}
	for _, old := range reg.Rounds {
		if slices.ContainsFunc(old.IDs, func(id string) bool { return present[id] }) {
			next.Rounds = append(next.Rounds, old)
		}
	}
	next.Rounds = append(next.Rounds, s)
	return next
}

func (reg *register) encode() ([]byte, error) {
	data, err := json.Marshal(reg)
	if err != nil {
		return nil, err
	}
	return data, backend.CheckRegister(data)
}

// of makes the round of a party that the seating lists.
func (s *seating) of(b *barrier, hold *Hold) *Round {
	r := &Round{barrier: b, hold: hold, version: s.version, number: s.Number}
	for i, id := range s.IDs {
		m := Member{ID: id}
		if i < len(s.Tokens) {
			m.Token = s.Tokens[i]
		}
		if i < len(s.Owners) {
			m.Owner = s.Owners[i]
		}
		r.members = append(r.members, m)
	}
	return r
}
