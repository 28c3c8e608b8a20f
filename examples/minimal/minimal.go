// Package minimal is a complete backend in one file, for those who write their
// own: one mutex, one slice for each place, and one channel that wakes
// everybody after each change. It passes the conformance suite. What it lacks
// is speed: a real backend wakes only those whom a change concerns.
package minimal

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gocoord/coord/backend"
)

// A Service is what clients share.
type Service struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change
	count   uint64        // tokens and versions
	lines   map[string][]*lease
	values  map[string]backend.Value
}

// NewService returns an empty service.
func NewService() *Service {
	return &Service{
		changed: make(chan struct{}), count: uint64(time.Now().UnixMicro()),
		lines: make(map[string][]*lease), values: make(map[string]backend.Value),
	}
}

// Client returns one more client of the service.
func (s *Service) Client() backend.Backend { return &client{s: s, done: make(chan struct{})} }

type client struct {
	s    *Service
	done chan struct{}
	once sync.Once
}

func (c *client) Info() backend.Info {
	return backend.Info{Name: "minimal", Scope: backend.Process, FIFO: true, Fencing: true}
}

// Places are told apart by directory and name: Mutex and RWMutex share theirs.
func key(p backend.Place) string { return p.Kind.Dir() + "/" + p.Name }

func version(n uint64) backend.Version { return backend.Version(strconv.FormatUint(n, 10)) }

// wait calls look under the lock, again after each change, until it says that
// it is done or ctx or the client ends.
func (c *client) wait(ctx context.Context, p backend.Place, look func() (done bool, err error)) error {
	if err := p.Check(); err != nil {
		return err
	}
	for {
		c.s.mu.Lock()
		changed := c.s.changed
		done, err := c.look(ctx, look)
		c.s.mu.Unlock()
		if done || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-c.done:
		}
	}
}

// look puts the end of ctx and of the client before everything else, so that a
// cancel wins over a grant.
func (c *client) look(ctx context.Context, look func() (bool, error)) (bool, error) {
	if err := backend.ContextError(ctx); err != nil {
		return false, err
	}
	select {
	case <-c.done:
		return false, backend.ErrClosed
	default:
		return look()
	}
}

// change is called under the lock and returns the new count.
func (s *Service) change() uint64 {
	close(s.changed)
	s.changed = make(chan struct{})
	s.count++
	return s.count
}

func (c *client) Acquire(ctx context.Context, p backend.Place, claim backend.Claim) (backend.Lease, error) {
	if err := claim.Check(); err != nil {
		return nil, err
	}
	var l *lease
	err := c.wait(ctx, p, func() (bool, error) {
		if l == nil {
			claim.Data = bytes.Clone(claim.Data)
			l = &lease{c: c, place: p, claim: claim, token: c.s.change(), since: time.Now(), done: make(chan struct{})}
			c.s.lines[key(p)] = append(c.s.lines[key(p)], l)
		}
		line := c.s.entries(p)
		i := slices.IndexFunc(line, func(e backend.Entry) bool { return e.Token == l.token })
		if i < 0 {
			return false, backend.ErrClosed
		}
		if err := backend.Mismatch(line, i); err != nil {
			return false, err
		}
		if !line[i].Admitted && claim.NoWait {
			return false, backend.ErrBusy
		}
		return line[i].Admitted, nil
	})
	if err != nil {
		if l != nil {
			_ = l.Release(context.Background())
		}
		return nil, err
	}
	return l, nil
}

// entries lists the line of p, admitted by the rule.
func (s *Service) entries(p backend.Place) []backend.Entry {
	var line []backend.Entry
	for _, l := range s.lines[key(p)] {
		line = append(line, backend.Entry{ID: l.ID(), Token: l.token, Claim: l.claim.Clone(), Since: l.since})
	}
	backend.Admit(line)
	return line
}

func (c *client) Observe(ctx context.Context, p backend.Place, since backend.Version) (r backend.Roster, err error) {
	err = c.wait(ctx, p, func() (bool, error) {
		r = backend.Roster{Entries: c.s.entries(p), Version: "v"}
		for _, e := range r.Entries { // the line itself makes the version
			r.Version += backend.Version(fmt.Sprint(" ", e.Token, e.Claim.Mode))
		}
		return r.Version != since, nil
	})
	return r, err
}

func (c *client) Gone(ctx context.Context, p backend.Place, id string) error {
	return c.wait(ctx, p, func() (bool, error) {
		return backend.Roster{Entries: c.s.entries(p)}.Index(id) < 0, nil
	})
}

func (c *client) Load(ctx context.Context, p backend.Place, since backend.Version) (v backend.Value, err error) {
	err = c.wait(ctx, p, func() (bool, error) {
		v = c.s.value(p)
		v.Data = slices.Clone(v.Data)
		return v.Version != since, nil
	})
	return v, err
}

func (s *Service) value(p backend.Place) backend.Value {
	if v, ok := s.values[key(p)]; ok {
		return v
	}
	return backend.Value{Version: version(0)}
}

func (c *client) Store(ctx context.Context, p backend.Place, data []byte, prev backend.Version, alive ...string) (v backend.Version, err error) {
	if err := backend.CheckRegister(data); err != nil {
		return "", err
	}
	err = c.wait(ctx, p, func() (bool, error) {
		line := backend.Roster{Entries: c.s.entries(p)}
		if c.s.value(p).Version != prev || slices.ContainsFunc(alive, func(id string) bool { return line.Index(id) < 0 }) {
			return false, backend.ErrConflict
		}
		v = version(c.s.change())
		if data == nil {
			delete(c.s.values, key(p))
			v = version(0)
			return true, nil
		}
		c.s.values[key(p)] = backend.Value{Data: append([]byte{}, data...), Version: v}
		return true, nil
	})
	return v, err
}

func (c *client) Close() error {
	c.once.Do(func() {
		c.s.mu.Lock()
		defer c.s.mu.Unlock()
		close(c.done)
		for _, line := range c.s.lines {
			for _, l := range slices.Clone(line) {
				if l.c == c {
					l.end()
				}
			}
		}
	})
	return nil
}

// A lease is an entry in a line.
type lease struct {
	c     *client
	place backend.Place
	claim backend.Claim
	token uint64
	since time.Time
	done  chan struct{}
	err   error // guarded by the service's lock
}

func (l *lease) ID() string                  { return strconv.FormatUint(l.token, 10) }
func (l *lease) Token() uint64               { return l.token }
func (l *lease) Deadline() (time.Time, bool) { return time.Time{}, false }
func (l *lease) Done() <-chan struct{}       { return l.done }

func (l *lease) Err() error {
	l.c.s.mu.Lock()
	defer l.c.s.mu.Unlock()
	return l.err
}

// end takes the entry out of line. It is called under the lock.
func (l *lease) end() {
	k := key(l.place)
	line := slices.DeleteFunc(l.c.s.lines[k], func(other *lease) bool { return other == l })
	if l.c.s.lines[k] = line; len(line) == 0 {
		delete(l.c.s.lines, k)
	}
	l.err = backend.ErrReleased
	close(l.done)
	l.c.s.change()
}

func (l *lease) Downgrade(context.Context) error {
	l.c.s.mu.Lock()
	defer l.c.s.mu.Unlock()
	switch {
	case l.err != nil:
		return l.err
	case l.claim.Mode == backend.Exclusive:
		l.claim.Mode = backend.Shared
		l.c.s.change()
	case l.claim.Mode != backend.Shared:
		return fmt.Errorf("%w: a claim that is %s cannot be downgraded", backend.ErrInvalid, l.claim.Mode)
	}
	return nil
}

func (l *lease) Withdraw(ctx context.Context, v backend.Version) error {
	l.c.s.mu.Lock()
	defer l.c.s.mu.Unlock()
	if err := backend.ContextError(ctx); err != nil {
		return err
	}
	if l.err == nil {
		if l.c.s.value(l.place).Version != v {
			return backend.ErrConflict
		}
		l.end()
	}
	return nil
}

func (l *lease) Release(context.Context) error {
	l.c.s.mu.Lock()
	defer l.c.s.mu.Unlock()
	if l.err == nil {
		l.end()
	}
	return nil
}
