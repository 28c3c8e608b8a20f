package zookeeper

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/remote"
)

// children asks for the names in a line.
func (b *Backend) children(path string) <-chan result[[]string] {
	return start(b, func() ([]string, error) {
		names, _, err := b.conn.Children(path)
		return names, err
	})
}

type listing struct {
	names []string
	pzxid int64
}

// list reads a line. A place that is not there has nobody in line.
func (b *Backend) list(ctx context.Context, at place) ([]node, error) {
	l, err := b.listing(ctx, at.line)
	return inLine(l.names), err
}

func (b *Backend) listing(ctx context.Context, path string) (listing, error) {
	l, err := do(ctx, b, path, func() (listing, error) {
		names, stat, err := b.conn.Children(path)
		if err != nil {
			return listing{}, err
		}
		return listing{names, stat.Pzxid}, nil
	})
	if errors.Is(err, zk.ErrNoNode) {
		return listing{}, nil
	}
	return l, err
}

// sync has what is read next be as new as all that was done before, wherever.
func (b *Backend) sync(ctx context.Context, path string) error {
	_, err := do(ctx, b, path, func() (string, error) { return b.conn.Sync(path) })
	return err
}

// freshList is list after a sync.
func (b *Backend) freshList(ctx context.Context, at place) ([]node, error) {
	if err := b.sync(ctx, at.line); err != nil {
		return nil, err
	}
	return b.list(ctx, at)
}

func (b *Backend) exists(ctx context.Context, path string) (bool, error) {
	return do(ctx, b, path, func() (bool, error) {
		there, _, err := b.conn.Exists(path)
		return there, err
	})
}

func (b *Backend) stat(ctx context.Context, path string) (*zk.Stat, error) {
	return do(ctx, b, path, func() (*zk.Stat, error) {
		_, stat, err := b.conn.Get(path)
		return stat, err
	})
}

// Observe implements backend.Backend.
func (b *Backend) Observe(ctx context.Context, p backend.Place, since backend.Version) (backend.Roster, error) {
	ctx, stop, err := remote.Begin(ctx, b.ctx, p)
	if err != nil {
		return backend.Roster{}, err
	}
	defer stop()
	at := b.place(p)
	if since == "" {
		return b.freshRoster(ctx, at)
	}
	for {
		w, exists, err := b.watches.watch(ctx, watchChildren, at.line)
		if err == nil && !exists {
			if w, exists, err = b.watches.watch(ctx, watchExists, at.line); exists {
				continue // it was made meanwhile
			}
		}
		if err != nil {
			return backend.Roster{}, err
		}
		roster, err := b.roster(ctx, at)
		if err != nil || roster.Version != since {
			return roster, err
		}
		if _, err := b.fired(ctx, w); err != nil {
			return backend.Roster{}, err
		}
	}
}

// roster reads the line and what its entries say.
func (b *Backend) roster(ctx context.Context, at place) (backend.Roster, error) {
	r, err := b.rosters.Get(ctx, at.line, func(ctx context.Context) (backend.Roster, error) { return b.readRoster(ctx, at) })
	return own(r), err
}

// own returns a copy of a roster that may be shared.
func own(r backend.Roster) backend.Roster {
	r.Entries = slices.Clone(r.Entries)
	for i := range r.Entries {
		r.Entries[i].Claim = r.Entries[i].Claim.Clone()
	}
	return r
}

// freshRoster is roster after a sync.
func (b *Backend) freshRoster(ctx context.Context, at place) (backend.Roster, error) {
	r, err := b.rosters.Get(ctx, at.line+"/", func(ctx context.Context) (backend.Roster, error) {
		if err := b.sync(ctx, at.line); err != nil {
			return backend.Roster{}, err
		}
		return b.readRoster(ctx, at)
	})
	return own(r), err
}

func (b *Backend) readRoster(ctx context.Context, at place) (backend.Roster, error) {
	for {
		l, err := b.listing(ctx, at.line)
		if err != nil {
			return backend.Roster{}, err
		}
		line := inLine(l.names)
		entries, complete, err := b.read(ctx, at, line)
		if err != nil {
			return backend.Roster{}, err
		}
		if !complete {
			continue // somebody left meanwhile
		}
		r := backend.Roster{Entries: entries, Version: "0"}
		if len(line) > 0 {
			r.Version = backend.Version(strconv.FormatInt(l.pzxid, 10))
		}
		backend.Admit(r.Entries)
		return r, nil
	}
}

// seen remembers what entries say, of lines that were looked at lately: nodes
// with a GUID in their name do not change but for the moment before they go.
type seen struct {
	mu    sync.Mutex
	lines map[string]map[string]backend.Entry
}

const maxSeen = 256

func (s *seen) get(line string) map[string]backend.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines[line]
}

func (s *seen) put(line string, entries map[string]backend.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(entries) == 0 {
		delete(s.lines, line)
		return
	}
	if s.lines == nil || len(s.lines) >= maxSeen {
		s.lines = make(map[string]map[string]backend.Entry)
	}
	s.lines[line] = entries
}

// read reads entries, and reports whether all were there.
func (b *Backend) read(ctx context.Context, at place, line []node) ([]backend.Entry, bool, error) {
	known := b.seen.get(at.line)
	type answer struct {
		data []byte
		stat *zk.Stat
	}
	entries := make([]backend.Entry, len(line))
	asked := make([]<-chan result[answer], len(line))
	for i, n := range line {
		if e, ok := known[n.name]; ok {
			entries[i] = e
			continue
		}
		path := at.line + "/" + n.name
		asked[i] = start(b, func() (answer, error) {
			data, stat, err := b.conn.Get(path)
			return answer{data, stat}, err
		})
	}
	complete := true
	for i, ch := range asked {
		if ch == nil {
			continue
		}
		a, err := await(ctx, ch)
		if err != nil && temporary(err) {
			path := at.line + "/" + line[i].name
			a, err = do(ctx, b, path, func() (answer, error) {
				data, stat, err := b.conn.Get(path)
				return answer{data, stat}, err
			})
		}
		switch {
		case errors.Is(err, zk.ErrNoNode):
			complete = false
			continue
		case err != nil:
			if ended := remote.Why(ctx); ended != nil {
				return nil, false, ended
			}
			return nil, false, b.judge(at.line, err)
		}
		entries[i] = line[i].entry(a.data, a.stat)
	}
	if complete {
		now := make(map[string]backend.Entry, len(line))
		for i, n := range line {
			now[n.name] = entries[i]
		}
		b.seen.put(at.line, now)
	}
	return entries, complete, nil
}

// Gone implements backend.Backend.
func (b *Backend) Gone(ctx context.Context, p backend.Place, id string) error {
	ctx, stop, err := remote.Begin(ctx, b.ctx, p)
	if err != nil {
		return err
	}
	defer stop()
	at := b.place(p)
	// The names of presences say what is in their IDs.
	if p.Kind == backend.Barrier || p.Kind == backend.Group || p.Kind == backend.Latch {
		if guid, suffix, ok := strings.Cut(id, "."); ok {
			if err := b.sync(ctx, at.line); err != nil {
				return err
			}
			return b.awaitEnd(ctx, at.line+"/_c_"+guid+"-member-"+suffix)
		}
	}
	for {
		line, err := b.freshList(ctx, at)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(line, func(n node) bool { return n.id() == id })
		if i < 0 {
			return nil
		}
		// A downgrade gives it another name.
		if err := b.awaitEnd(ctx, at.line+"/"+line[i].name); err != nil {
			return err
		}
	}
}

// awaitEnd waits until a node is gone.
func (b *Backend) awaitEnd(ctx context.Context, path string) error {
	for {
		w, exists, err := b.watches.watch(ctx, watchData, path)
		if err != nil || !exists {
			return err
		}
		if _, err := b.fired(ctx, w); err != nil {
			return err
		}
	}
}
