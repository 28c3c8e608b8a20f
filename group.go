package coord

import (
	"context"
	"iter"

	"github.com/gocoord/coord/backend"
)

// A Group is a set of members that come and go. A member that crashes leaves
// it, within Info.Expiry.
type Group struct{ handle }

// Group returns the group of this name.
func (c *Client) Group(name string) *Group {
	return &Group{c.handle(backend.Group, name, nil)}
}

// Join makes the caller a member until it releases the hold. Others see data,
// an address for example. One client may join several times.
func (g *Group) Join(ctx context.Context, data []byte) (*Hold, error) {
	return g.acquire(ctx, "join", backend.Claim{Mode: backend.Presence, Data: data})
}

// Members lists the members in order of arrival.
func (g *Group) Members(ctx context.Context) ([]Member, error) {
	roster, err := g.observe(ctx, "members", "")
	return members(roster), err
}

// Watch yields the members, at first and then after each change. When it
// cannot go on, because ctx has ended for one, it yields the error and ends.
// Changes that follow each other closely may be seen as one.
func (g *Group) Watch(ctx context.Context) iter.Seq2[[]Member, error] {
	return func(yield func([]Member, error) bool) {
		g.watch(ctx, "watch group", func(roster backend.Roster, err error) bool {
			return yield(members(roster), err)
		})
	}
}

func members(roster backend.Roster) []Member {
	var out []Member
	for _, e := range roster.Entries {
		out = append(out, member(e))
	}
	return out
}
