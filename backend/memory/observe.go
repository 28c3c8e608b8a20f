package memory

import (
	"context"
	"slices"
	"strconv"

	"github.com/gocoord/coord/backend"
)

// Observe implements backend.Backend.
func (b *Backend) Observe(ctx context.Context, p backend.Place, since backend.Version) (roster backend.Roster, err error) {
	err = b.read(ctx, OpObserve, p, func(ln *line) (wait *chan struct{}) {
		if ln == nil || ln.n == 0 {
			roster = backend.Roster{Version: version(0)}
		} else {
			roster.Version = version(ln.version)
		}
		if roster.Version == since {
			return watchOf(ln)
		}
		if ln != nil {
			roster.Entries = make([]backend.Entry, 0, ln.n)
			for l := ln.all.head; l != nil; l = l.links.next {
				roster.Entries = append(roster.Entries, l.entry())
			}
		}
		return nil
	})
	if err != nil {
		return backend.Roster{}, err
	}
	return roster, nil
}

func watchOf(ln *line) *chan struct{} {
	if ln == nil {
		return new(chan struct{})
	}
	return &ln.watch
}

// Gone implements backend.Backend.
func (b *Backend) Gone(ctx context.Context, p backend.Place, id string) error {
	token, ok := parseID(id)
	return b.read(ctx, OpGone, p, func(ln *line) (wait *chan struct{}) {
		if !ok || ln == nil {
			return nil
		}
		for l := ln.all.head; l != nil && l.token <= token; l = l.links.next {
			if l.token == token {
				ch := l.gone()
				return &ch
			}
		}
		return nil
	})
}

// Load implements backend.Backend.
func (b *Backend) Load(ctx context.Context, p backend.Place, since backend.Version) (value backend.Value, err error) {
	err = b.read(ctx, OpLoad, p, func(ln *line) (wait *chan struct{}) {
		value = backend.Value{Version: version(0)}
		if ln != nil {
			value.Version = version(ln.registerVersion)
		}
		if value.Version != since {
			if ln != nil {
				value.Data = slices.Clone(ln.register)
			}
			return nil
		}
		if ln == nil {
			return new(chan struct{})
		}
		return &ln.registerWatch
	})
	if err != nil {
		return backend.Value{}, err
	}
	return value, nil
}

func version(n uint64) backend.Version { return backend.Version(strconv.FormatUint(n, 36)) }

// read calls look under the lock of the place until it returns no channel to
// wait for. The line is nil where there is none, until somebody has to wait.
func (b *Backend) read(ctx context.Context, op Op, p backend.Place, look func(*line) *chan struct{}) error {
	if ctx.Err() != nil {
		return backend.ContextError(ctx)
	}
	if err := p.Check(); err != nil {
		return err
	}
	if f := b.trouble(op, p); f != nil {
		return f.around(ctx, func() error { return b.await(ctx, p, look) }, nil)
	}
	return b.await(ctx, p, look)
}

func (b *Backend) await(ctx context.Context, p backend.Place, look func(*line) *chan struct{}) error {
	sh, k := b.space.at(p)
	for {
		sh.mu.Lock()
		if b.closed.Load() {
			sh.mu.Unlock()
			return backend.ErrClosed
		}
		ln := sh.lines[k]
		wait := look(ln)
		if wait == nil {
			sh.mu.Unlock()
			return nil
		}
		if ln == nil {
			ln = sh.line(k)
			wait = look(ln)
		}
		if *wait == nil {
			*wait = make(chan struct{})
		}
		ch := *wait
		ln.readers++
		sh.mu.Unlock()

		var err error
		select {
		case <-ch:
		case <-b.done:
			err = backend.ErrClosed
		case <-ctx.Done():
			err = backend.ContextError(ctx)
		}
		sh.mu.Lock()
		ln.readers--
		ln.settle()
		sh.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// Store implements backend.Backend.
func (b *Backend) Store(ctx context.Context, p backend.Place, data []byte, prev backend.Version, alive ...string) (v backend.Version, err error) {
	if ctx.Err() != nil {
		return "", backend.ContextError(ctx)
	}
	if err := p.Check(); err != nil {
		return "", err
	}
	if err := backend.CheckRegister(data); err != nil {
		return "", err
	}
	if f := b.trouble(OpStore, p); f != nil {
		err = f.around(ctx, func() (err error) { v, err = b.store(p, data, prev, alive, nil); return err }, nil)
		if err != nil {
			v = ""
		}
		return v, err
	}
	return b.store(p, data, prev, alive, nil)
}

func (b *Backend) store(p backend.Place, data []byte, prev backend.Version, alive []string, tag any) (backend.Version, error) {
	sh, k := b.space.at(p)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if b.closed.Load() {
		return "", backend.ErrClosed
	}
	ln := sh.line(k)
	if tag != nil && ln.registerTag == tag {
		return version(ln.registerVersion), nil
	}
	if version(ln.registerVersion) != prev || !ln.alive(alive) {
		return "", backend.ErrConflict
	}
	var next uint64
	if data != nil {
		next = sh.tick()
	}
	if sh.recorder != nil {
		if err := sh.recorder.Store(p, data, next, tag); err != nil {
			ln.settle()
			return "", err
		}
	}
	ln.register, ln.registerVersion, ln.registerTag = nil, next, tag
	if data != nil {
		ln.register = append(make([]byte, 0, len(data)), data...)
	}
	if ln.registerWatch != nil {
		close(ln.registerWatch)
		ln.registerWatch = nil
	}
	ln.settle()
	return version(ln.registerVersion), nil
}

// alive reports whether all entries of these IDs are in line.
func (ln *line) alive(ids []string) bool {
	tokens := make([]uint64, len(ids))
	for i, id := range ids {
		token, ok := parseID(id)
		if !ok {
			return false
		}
		tokens[i] = token
	}
	slices.Sort(tokens)
	tokens = slices.Compact(tokens)
	for l := ln.all.head; l != nil && len(tokens) > 0; l = l.links.next {
		if l.token == tokens[0] {
			tokens = tokens[1:]
		}
	}
	return len(tokens) == 0
}
