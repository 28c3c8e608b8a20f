package zookeeper

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocoord/coord/internal/remote"
)

type watchKind uint8

const (
	watchData     watchKind = iota // of a node that exists
	watchExists                    // of a node that may not exist yet
	watchChildren                  // of a node that exists
)

type watchKey struct {
	kind watchKind
	path string
}

// watches are those of a client: one for all that wait for the same thing. The
// client cannot take a watch back, so one that nobody waits for any more stays,
// for whoever wants it next, until it fires.
type watches struct {
	b   *Backend
	mu  sync.Mutex
	all map[watchKey]*watch
}

type watch struct {
	ready  chan struct{} // closed when it is known whether it is set
	exists bool
	err    error
	epoch  uint64 // of the connection when it was asked for

	fired chan struct{} // closed when it has fired
	event zk.Event
}

func (ws *watches) init(b *Backend) {
	ws.b = b
	ws.all = make(map[watchKey]*watch)
}

// watch sets a watch, or finds the one that is set. A node that does not exist
// gets none, but for watchExists.
func (ws *watches) watch(ctx context.Context, kind watchKind, path string) (*watch, bool, error) {
	key := watchKey{kind, path}
	ws.mu.Lock()
	w := ws.all[key]
	if w == nil {
		w = &watch{ready: make(chan struct{}), fired: make(chan struct{})}
		ws.all[key] = w
		if !ws.b.spawn(func() { ws.run(key, w) }) {
			delete(ws.all, key)
			ws.mu.Unlock()
			return nil, false, remote.Why(ws.b.ctx)
		}
	}
	ws.mu.Unlock()
	select {
	case <-w.ready:
		return w, w.exists, w.err
	case <-ctx.Done():
		return nil, false, remote.Why(ctx)
	}
}

// setWatch is the answer to setting one.
type setWatch struct {
	events <-chan zk.Event
	exists bool
	epoch  uint64
}

// run sets the watch and waits for it. It depends on the ctx of no caller:
// others share it.
func (ws *watches) run(key watchKey, w *watch) {
	b := ws.b
	set, err := do(b.ctx, b, key.path, func() (setWatch, error) {
		set := setWatch{exists: true, epoch: b.d.connections()}
		var err error
		switch key.kind {
		case watchData:
			_, _, set.events, err = b.conn.GetW(key.path)
		case watchExists:
			set.exists, _, set.events, err = b.conn.ExistsW(key.path)
		default:
			_, _, set.events, err = b.conn.ChildrenW(key.path)
		}
		return set, err
	})
	if err != nil {
		ws.forget(key, w)
		if !errors.Is(err, zk.ErrNoNode) {
			w.err = err
		}
		close(w.ready)
		return
	}
	w.exists, w.epoch = set.exists, set.epoch
	close(w.ready)
	select {
	case w.event = <-set.events:
	case <-b.ctx.Done():
	}
	ws.forget(key, w)
	close(w.fired)
}

func (ws *watches) forget(key watchKey, w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.all[key] == w {
		delete(ws.all, key)
	}
}

// fired waits for a watch. One that ended without an event fires, too: its
// waiter looks again.
func (b *Backend) fired(ctx context.Context, w *watch) (zk.Event, error) {
	begun := time.Now()
	again := time.NewTicker(max(b.info.Expiry/3, 100*time.Millisecond))
	defer again.Stop()
	for {
		select {
		case <-w.fired:
			if err := remote.Why(ctx); err != nil {
				return zk.Event{}, err
			}
			return w.event, nil
		case <-again.C:
			if b.silent(begun) {
				return zk.Event{}, b.noAnswer()
			}
		case <-ctx.Done():
			return zk.Event{}, remote.Why(ctx)
		}
	}
}

// awaitAny returns when one of several nodes has changed or is gone.
func (b *Backend) awaitAny(ctx context.Context, paths []string) error {
	cases := []reflect.SelectCase{{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ctx.Done())}}
	for _, path := range paths {
		w, exists, err := b.watches.watch(ctx, watchData, path)
		if err != nil || !exists {
			return err
		}
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(w.fired)})
	}
	reflect.Select(cases)
	return remote.Why(ctx)
}
