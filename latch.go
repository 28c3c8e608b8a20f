package coord

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/gocoord/coord/backend"
)

// A Latch is closed until it has been counted down, and then lets everybody
// through, late comers too. Its count is kept by the service and outlives the
// clients that changed it, where Info.Durable says so.
type Latch struct {
	handle
	count int
}

// Latch returns the latch of this name, which opens at the count-th CountDown:
// 1 makes a plain latch. All clients must give the same count; one that finds
// the latch in use with another fails with ErrMismatch.
func (c *Client) Latch(name string, count int) *Latch {
	return &Latch{c.handle(backend.Latch, name, checkCount(count)), count}
}

func checkCount(count int) error {
	if count < 1 {
		return fmt.Errorf("%w: a latch with a count of %d, want at least 1", ErrInvalid, count)
	}
	return nil
}

// CountDown counts down by one; at an open latch it does nothing. When the
// service does not answer it asks again, and each CountDown counts once
// whatever was lost on the way: ErrUnavailable is returned only when ctx ends
// or the service stays away.
func (l *Latch) CountDown(ctx context.Context) error {
	id := rand.Text()[:latchIDLen]
	return l.update(ctx, "count down", func(s *latchState) (bool, error) {
		if err := l.agrees(s); err != nil {
			return false, err
		}
		if s.Left == 0 || slices.Contains(s.Seen, id) {
			return false, nil
		}
		if s.Left--; s.Left == 0 {
			s.Opened++
		}
		s.remember(id)
		return true, nil
	})
}

// Reset closes the latch again, to open at the count-th CountDown from now.
// From then on it is in use with this count, whatever the clients gave.
// Those who wait meanwhile go on waiting, unless it had opened before.
func (l *Latch) Reset(ctx context.Context, count int) error {
	id := rand.Text()[:latchIDLen]
	if err := checkCount(count); err != nil && l.err == nil {
		return l.fail("reset", err)
	}
	return l.update(ctx, "reset", func(s *latchState) (bool, error) {
		if slices.Contains(s.Seen, id) {
			return false, nil
		}
		s.Of, s.Left, s.Any = count, count, true
		s.remember(id)
		return true, nil
	})
}

// Remove makes the service forget the latch, as if it had never been used.
// Those who wait go on waiting.
func (l *Latch) Remove(ctx context.Context) error {
	const op = "remove latch"
	if err := l.ready(ctx); err != nil {
		return l.fail(op, err)
	}
	for {
		v, err := l.c.backend.Load(ctx, l.place, "")
		if err != nil || v.Data == nil {
			return l.fail(op, err)
		}
		if _, err = l.c.backend.Store(ctx, l.place, nil, v.Version); err == nil {
			return nil
		} else if !l.again(ctx, err) {
			return l.fail(op, err)
		}
	}
}

// Wait waits until the latch is open or ctx ends. It returns, too, when the
// latch was opened and closed again while it waited.
func (l *Latch) Wait(ctx context.Context) error {
	const op = "wait for latch"
	if err := l.ready(ctx); err != nil {
		return l.fail(op, err)
	}
	var since backend.Version
	opened := uint64(0)
	for {
		s, version, err := l.load(ctx, since)
		if err != nil {
			return l.fail(op, err)
		}
		if err := l.agrees(s); err != nil {
			return l.fail(op, err)
		}
		if since == "" {
			opened = s.Opened
		}
		if s.Left == 0 || s.Opened > opened {
			return nil
		}
		since = version
	}
}

// latchState is the content of a latch's register.
type latchState struct {
	Of     int      `json:"of"`             // the count it began with
	Left   int      `json:"left"`           // 0: open
	Opened uint64   `json:"opened"`         // how often it opened
	Any    bool     `json:"any,omitempty"`  // reset: clients may have given another count
	Seen   []string `json:"seen,omitempty"` // the last changes, so that a repeated one finds itself
}

const (
	latchIDLen    = 13  // characters of base 32: 65 bits
	latchSeen     = 256 // changes remembered
	latchPatience = 5   // reads that fail before the service counts as gone
)

func (s *latchState) remember(id string) {
	s.Seen = append(s.Seen, id)
	s.Seen = s.Seen[max(0, len(s.Seen)-latchSeen):]
}

func (l *Latch) agrees(s *latchState) error {
	if s.Any || s.Of == l.count {
		return nil
	}
	return fmt.Errorf("%w: count %d here, and the latch is in use with %d; give all clients the same count, or Reset it",
		ErrMismatch, l.count, s.Of)
}

func (l *Latch) load(ctx context.Context, since backend.Version) (*latchState, backend.Version, error) {
	v, err := l.c.backend.Load(ctx, l.place, since)
	if err != nil {
		return nil, "", err
	}
	s := &latchState{Of: l.count, Left: l.count}
	if v.Data == nil {
		return s, v.Version, nil
	}
	if err := json.Unmarshal(v.Data, s); err != nil {
		return nil, "", fmt.Errorf("%w: the register holds what no latch of this library wrote (%w); use another name or Remove it", ErrMismatch, err)
	}
	return s, v.Version, nil
}

// update changes the state until the service says that it did, or that it had
// before.
func (l *Latch) update(ctx context.Context, op string, change func(*latchState) (bool, error)) error {
	if err := l.ready(ctx); err != nil {
		return l.fail(op, err)
	}
	unsure := false // a Store got no answer
	for silent := 0; ; {
		s, version, err := l.load(ctx, "")
		if err != nil {
			if silent++; silent < latchPatience && errors.Is(err, ErrUnavailable) && pause(ctx) {
				continue
			}
			if unsure {
				err = fmt.Errorf("perhaps done: %w", err)
			}
			return l.fail(op, err)
		}
		silent = 0
		changed, err := change(s)
		if err != nil || !changed {
			return l.fail(op, err)
		}
		data, err := json.Marshal(s)
		if err != nil {
			return l.fail(op, err)
		}
		_, err = l.c.backend.Store(ctx, l.place, data, version)
		if err == nil {
			return nil
		}
		if !l.again(ctx, err) {
			return l.fail(op, err)
		}
		unsure = unsure || errors.Is(err, ErrUnavailable)
	}
}

// again reports whether a Store that failed so is worth repeating.
func (l *Latch) again(ctx context.Context, err error) bool {
	return errors.Is(err, backend.ErrConflict) && ctx.Err() == nil || errors.Is(err, ErrUnavailable) && pause(ctx)
}
