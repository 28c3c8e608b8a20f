package memory

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocoord/coord/backend"
)

// A space holds places. It is sharded so that names far apart do not share a
// mutex.
type space struct {
	name    string
	clients int // of a named space, guarded by spaces.mu
	shards  [shardCount]shard
}

const shardCount = 64 // a power of two

// A shard guards some places and counts their tokens and versions. The counter
// starts from the clock, in microseconds, so that a new process goes on growing
// where an old one ended.
type shard struct {
	mu    sync.Mutex
	lines map[key]*line
	idle  [idleLines]*line // empty lines kept for their next user
	next  int              // the slot of idle to use next
	count uint64

	recorder Recorder // of a Host's space
	reserved uint64   // the count at which the recorder is asked for more
}

// idleLines bounds how many empty lines a shard keeps. They make the usual
// case, the same few names again and again, free of map changes.
const idleLines = 8

// A key is a place. Mutex and RWMutex are one lock, so they have one key.
type key struct {
	kind backend.Kind
	name string
}

var hashSeed = maphash.MakeSeed()

func newSpace(name string) *space {
	s := &space{name: name}
	start := uint64(time.Now().UnixMicro())
	for i := range s.shards {
		s.shards[i].lines = make(map[key]*line)
		s.shards[i].count, s.shards[i].reserved = start, unreserved
	}
	return s
}

func (s *space) at(p backend.Place) (*shard, key) {
	k := key{p.Kind, p.Name}
	if k.kind == backend.RWMutex {
		k.kind = backend.Mutex
	}
	return &s.shards[maphash.String(hashSeed, p.Name)&(shardCount-1)], k
}

// line returns the line of a place, and makes it if there is none.
func (sh *shard) line(k key) *line {
	if ln := sh.lines[k]; ln != nil {
		return ln
	}
	ln := &line{shard: sh, key: k}
	sh.lines[k] = ln
	sh.retire(ln)
	return ln
}

// retire remembers that a line is empty, and drops the one that has been empty
// for longest in its stead.
func (sh *shard) retire(ln *line) {
	if ln.parked {
		return
	}
	slot := &sh.idle[sh.next]
	sh.next = (sh.next + 1) % idleLines
	if old := *slot; old != nil {
		old.parked = false
		if old.empty() {
			delete(sh.lines, old.key)
		}
	}
	*slot, ln.parked = ln, true
}

func (sh *shard) tick() uint64 {
	sh.count++
	if sh.count >= sh.reserved {
		sh.reserved = sh.recorder.Reserve(sh.count)
	}
	return sh.count
}

// expel ends all leases of a client that closes, those that wait before those
// that hold, so that none is admitted in passing. Holders see why.
func (s *space) expel(b *Backend, why error) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		var woken *lease
		for _, ln := range sh.lines {
			for l := ln.all.tail; l != nil; {
				prev := l.links.prev
				if l.backend == b {
					woken = l.endLocked(why, backend.ErrClosed, woken)
				}
				l = prev
			}
		}
		sh.mu.Unlock()
		wake(woken)
	}
}

var spaces = struct {
	mu     sync.Mutex
	byName map[string]*space
}{byName: make(map[string]*space)}

var privateSpaces atomic.Uint64

func nextPrivate() string { return fmt.Sprintf("private-%d", privateSpaces.Add(1)) }

func joinSpace(name string) *space {
	spaces.mu.Lock()
	defer spaces.mu.Unlock()
	s := spaces.byName[name]
	if s == nil {
		s = newSpace(name)
		spaces.byName[name] = s
	}
	s.clients++
	return s
}

// leaveSpace forgets a space that nobody uses and that holds no register.
func leaveSpace(s *space) {
	spaces.mu.Lock()
	defer spaces.mu.Unlock()
	if s.clients--; s.clients == 0 && s.blank() {
		delete(spaces.byName, s.name)
	}
}

func (s *space) blank() bool {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for _, ln := range sh.lines {
			if !ln.empty() {
				sh.mu.Unlock()
				return false
			}
		}
		sh.mu.Unlock()
	}
	return true
}
