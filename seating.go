package coord

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/gocoord/coord/backend"
)

// A register is the content of a barrier's register, as text:
//
//	coord barrier 1
//	mark 1718
//	round id/1717/owner id/1718/owner
//
// The mark is the arrival number of the last member ever seated. Each round
// that still has somebody in line has a line of its members, in order of
// arrival. The lines stay text until somebody needs one: every member reads the
// register, and most read one round of many members.
type register struct {
	mark   uint64
	rounds []*seating

	version backend.Version
	absent  bool
}

const (
	registerHeader = "coord barrier 1\n"
	maxOwners      = 1000 // members whose owners are worth their bytes
)

// A seating is one round of a register. Its number is the mark that it set,
// which grows even when the register was removed in between.
type seating struct {
	line    string
	version backend.Version // of the register it was seen in
	members func() []Member // the line, read when somebody needs it
}

func newSeating(line string, v backend.Version) *seating {
	return &seating{line: line, version: v, members: sync.OnceValue(func() []Member { return parseRound(line) })}
}

func (s *seating) number() uint64 {
	members := s.members()
	return members[len(members)-1].Token
}

func (b *barrier) load(ctx context.Context, since backend.Version) (*register, error) {
	v, err := b.c.backend.Load(ctx, b.place, since)
	if err != nil {
		return nil, err
	}
	return b.c.registers.get(b.place, v)
}

func parseRegister(v backend.Value) (*register, error) {
	reg := &register{version: v.Version, absent: v.Data == nil}
	if reg.absent {
		return reg, nil
	}
	text, ok := strings.CutPrefix(string(v.Data), registerHeader)
	mark, rounds, _ := strings.Cut(text, "\n")
	if ok {
		mark, ok = strings.CutPrefix(mark, "mark ")
	}
	var err error
	if reg.mark, err = strconv.ParseUint(mark, 10, 64); err != nil || !ok {
		return nil, fmt.Errorf("%w: the register holds %.32q, which no barrier of this library wrote; use another name or remove it", ErrMismatch, v.Data)
	}
	for line := range strings.Lines(rounds) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "round ") {
			return nil, fmt.Errorf("%w: the register has the line %.32q, which no barrier of this library wrote; use another name or remove it", ErrMismatch, line)
		}
		reg.rounds = append(reg.rounds, newSeating(line, v.Version))
	}
	return reg, nil
}

// seating returns the round that lists the entry, or nil.
func (reg *register) seating(id string) *seating {
	for _, s := range reg.rounds {
		if strings.Contains(s.line, " "+id+"/") {
			return s
		}
	}
	return nil
}

func parseRound(line string) []Member {
	fields := strings.Fields(line)[1:]
	members := make([]Member, 0, len(fields))
	for _, f := range fields {
		id, rest, _ := strings.Cut(f, "/")
		number, owner, _ := strings.Cut(rest, "/")
		m := Member{ID: id}
		m.Token, _ = strconv.ParseUint(number, 10, 64)
		m.Owner, _ = url.PathUnescape(owner)
		members = append(members, m)
	}
	return members
}

// with returns the register with one more round, and without those that nobody
// in line is left of.
func (reg *register) with(chosen []backend.Entry, line []backend.Entry) *register {
	var b strings.Builder
	b.WriteString("round")
	for _, e := range chosen {
		owner := ""
		if len(chosen) <= maxOwners {
			owner = url.PathEscape(e.Claim.Owner)
		}
		fmt.Fprintf(&b, " %s/%d/%s", e.ID, e.Token, owner)
	}
	next := &register{mark: chosen[len(chosen)-1].Token}
	for _, old := range reg.rounds {
		if len(remaining(old.members(), line)) > 0 {
			next.rounds = append(next.rounds, old)
		}
	}
	next.rounds = append(next.rounds, newSeating(b.String(), ""))
	return next
}

func (reg *register) encode() ([]byte, error) {
	data := fmt.Appendf(nil, "%smark %d\n", registerHeader, reg.mark)
	for _, s := range reg.rounds {
		data = append(append(data, s.line...), '\n')
	}
	return data, backend.CheckRegister(data)
}

// remaining lists the members that are in line. Both are in order of arrival.
func remaining(members []Member, line []backend.Entry) []string {
	var ids []string
	for _, e := range line {
		for len(members) > 0 && members[0].Token < e.Token {
			members = members[1:]
		}
		if len(members) == 0 {
			break
		}
		if members[0].ID == e.ID {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// ids lists the entries of what was chosen.
func ids(chosen []backend.Entry) []string {
	out := make([]string, len(chosen))
	for i, e := range chosen {
		out[i] = e.ID
	}
	return out
}
