//go:build linux || darwin

package socket

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// A guard notices when somebody removes or replaces the files that a client's
// holds depend on: the sidecar, without which another server could arise, and
// the member file, without which a successor would take the client for dead.
// For a server it also looks after the socket.
type guard struct {
	at      layout
	sidecar identity
	member  *member
	server  *server
	paths   []string
	alarm   chan struct{}
}

func newGuard(at layout, a *attachment, m *member) *guard {
	g := &guard{at: at, sidecar: a.sidecar, member: m, server: a.server, alarm: make(chan struct{}, 1)}
	g.paths = []string{at.sidecar(), at.member(m.id)}
	if a.server != nil {
		g.paths = append(g.paths, at.path)
	}
	for _, path := range g.paths {
		watches.add(path, g.alarm)
	}
	// What happened before the watches were there is found by looking.
	poke(g.alarm)
	return g
}

func (g *guard) close() {
	for _, path := range g.paths {
		watches.remove(path, g.alarm)
	}
}

// check says what is wrong, if anything.
func (g *guard) check() error {
	if !g.sidecar.is(g.at.sidecar()) {
		return fmt.Errorf("the lock file %s was removed or replaced, so that another server could arise", g.at.sidecar())
	}
	if err := g.member.check(g.at); err != nil || g.server == nil {
		return err
	}
	if !g.server.socket.is(g.at.path) {
		if err := g.server.republish(); err == nil {
			watches.remove(g.at.path, g.alarm)
			watches.add(g.at.path, g.alarm)
		}
	}
	return nil
}

// watches are the files that clients of this process have watched, through one
// watcher for all of them: the kernel allows only so many.
var watches = watchTable{subscribers: make(map[string][]chan struct{})}

type watchTable struct {
	mu          sync.Mutex
	watcher     *fsnotify.Watcher
	loop        *sync.WaitGroup
	subscribers map[string][]chan struct{}
	ticks       *time.Ticker // in the watcher's stead where there is none to be had
	stop        chan struct{}
}

// add has ch poked when the file at path changes its name or goes.
func (t *watchTable) add(path string, ch chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, other := range t.subscribers[path] {
		poke(other) // what it watches may be another file by now
	}
	t.subscribers[path] = append(t.subscribers[path], ch)
	if t.watcher == nil && t.ticks == nil {
		t.startLocked()
	}
	if t.watcher != nil {
		_ = t.watcher.Add(path) // one that is not there is found by looking
	}
}

func (t *watchTable) startLocked() {
	t.loop, t.stop = new(sync.WaitGroup), make(chan struct{})
	w, err := fsnotify.NewWatcher()
	if err != nil {
		ticks, stop := time.NewTicker(time.Second), t.stop
		t.ticks = ticks
		t.loop.Go(func() {
			for {
				select {
				case <-ticks.C:
					t.pokeAll()
				case <-stop:
					return
				}
			}
		})
		return
	}
	t.watcher = w
	t.loop.Go(func() {
		for {
			select {
			case e, ok := <-w.Events:
				if !ok {
					return
				}
				t.poke(e.Name)
			case _, ok := <-w.Errors:
				if !ok {
					return
				}
				t.pokeAll() // events were lost
			}
		}
	})
}

func (t *watchTable) poke(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, ch := range t.subscribers[path] {
		poke(ch)
	}
}

func (t *watchTable) pokeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, chs := range t.subscribers {
		for _, ch := range chs {
			poke(ch)
		}
	}
}

func poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// remove ends what add began. The last one ends the watcher, too.
func (t *watchTable) remove(path string, ch chan struct{}) {
	t.mu.Lock()
	chs := t.subscribers[path]
	for i, have := range chs {
		if have == ch {
			chs = append(chs[:i:i], chs[i+1:]...)
			break
		}
	}
	if len(chs) > 0 {
		t.subscribers[path] = chs
		t.mu.Unlock()
		return
	}
	delete(t.subscribers, path)
	if t.watcher != nil {
		_ = t.watcher.Remove(path)
	}
	if len(t.subscribers) > 0 {
		t.mu.Unlock()
		return
	}
	w, ticks, stop, loop := t.watcher, t.ticks, t.stop, t.loop
	t.watcher, t.ticks = nil, nil
	t.mu.Unlock()
	close(stop)
	if w != nil {
		_ = w.Close()
	}
	if ticks != nil {
		ticks.Stop()
	}
	loop.Wait()
}

// awaitRemoval waits until the regular file at the path has gone.
func (l layout) awaitRemoval(ctx context.Context) error {
	ch := make(chan struct{}, 1)
	for {
		watches.add(l.path, ch)
		occ, err := l.occupied()
		if err == nil && occ == aFile {
			select {
			case <-ch:
			case <-ctx.Done():
				err = fmt.Errorf("%w: a regular file is at %s, as other programs leave one while they hold a lock; it is waited for and never removed", context.Cause(ctx), l.path)
			}
		}
		watches.remove(l.path, ch)
		if err != nil || occ != aFile {
			return errors.Join(err)
		}
	}
}
