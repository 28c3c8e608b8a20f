package remote

import (
	"context"
	"errors"
	"time"

	"github.com/gocoord/coord/backend"
)

// PatienceAfter is for how long a failed Acquire waits for the answer that it
// has an entry, and then for that to be removed, so that it is normally gone on
// return. After that the removal goes on in the background.
const PatienceAfter = 100 * time.Millisecond

// ErrUnused is the end of a session before the claim was put in line.
var ErrUnused = errors.New("the session was over before it could be used")

// Acquire makes a claim in the session that open returns. One that turns out to
// have been gone for a while, without the client's knowing, is replaced.
func Acquire[S any, L backend.Lease](ctx context.Context, p backend.Place, c backend.Claim,
	open func(context.Context) (S, error), acquire func(S) (L, error),
) (backend.Lease, error) {
	if err := errors.Join(p.Check(), c.Check()); err != nil {
		return nil, err
	}
	if err := Why(ctx); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		s, err := open(ctx)
		if err != nil {
			return nil, err
		}
		l, err := acquire(s)
		if err == nil {
			return l, nil
		}
		if !errors.Is(err, ErrUnused) || try == 3 || ctx.Err() != nil {
			return nil, err
		}
	}
}
