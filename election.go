package coord

import (
	"context"
	"iter"

	"github.com/gocoord/coord/backend"
)

// A Member is who holds leadership, or belongs to a group or a barrier's round.
type Member struct {
	ID    string // unique among all that ever took part
	Owner string // see WithOwner
	Token uint64 // grows with the order of arrival
	Data  []byte // what it campaigned or joined with
}

func member(e backend.Entry) Member {
	return Member{ID: e.ID, Owner: e.Claim.Owner, Token: e.Token, Data: e.Claim.Data}
}

// An Election has one leader at a time among those who campaign.
type Election struct{ handle }

// Election returns the election of this name.
func (c *Client) Election(name string) *Election {
	return &Election{c.handle(backend.Election, name, nil)}
}

// Campaign waits until the caller leads or ctx ends. Others see data as what
// the leader publishes. Leadership ends as any hold does; Release resigns.
func (e *Election) Campaign(ctx context.Context, data []byte) (*Hold, error) {
	return e.acquire(ctx, "campaign", backend.Claim{Mode: backend.Exclusive, Data: data})
}

// TryCampaign answers ErrBusy where Campaign would have to wait.
func (e *Election) TryCampaign(ctx context.Context, data []byte) (*Hold, error) {
	return e.acquire(ctx, "try campaign", backend.Claim{Mode: backend.Exclusive, Data: data, NoWait: true})
}

// Leader returns who leads, or nil if nobody does.
func (e *Election) Leader(ctx context.Context) (*Member, error) {
	roster, err := e.observe(ctx, "leader", "")
	if err != nil {
		return nil, err
	}
	return leader(roster), nil
}

// Watch yields who leads, at first and then after each change; nil means
// nobody. When it cannot go on, because ctx has ended for one, it yields the
// error and ends. Changes that follow each other closely may be seen as one.
func (e *Election) Watch(ctx context.Context) iter.Seq2[*Member, error] {
	return func(yield func(*Member, error) bool) {
		last := "none seen"
		e.watch(ctx, "watch election", func(roster backend.Roster, err error) bool {
			if err != nil {
				return yield(nil, err)
			}
			id, now := "", leader(roster)
			if now != nil {
				id = now.ID
			}
			if id == last {
				return true
			}
			last = id
			return yield(now, nil)
		})
	}
}

func leader(roster backend.Roster) *Member {
	for _, entry := range roster.Entries {
		if entry.Admitted {
			m := member(entry)
			return &m
		}
	}
	return nil
}

// watch calls see with each state of the line, until see has enough or there
// is an error.
func (h *handle) watch(ctx context.Context, op string, see func(backend.Roster, error) bool) {
	var since backend.Version
	for {
		roster, err := h.observe(ctx, op, since)
		if !see(roster, err) || err != nil {
			return
		}
		since = roster.Version
	}
}
