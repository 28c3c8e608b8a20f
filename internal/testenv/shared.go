package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// shared holds the clusters that the tests of this package have in common.
var shared struct {
	mu      sync.Mutex
	open    bool // Main runs, so somebody will stop them
	dir     string
	entries map[string]*sharedEntry
	zoo     map[int]*sharedZoo // by size
}

type sharedZoo struct {
	once sync.Once
	s    *zooServers
	err  error
}

type sharedEntry struct {
	dir  string
	once sync.Once
	s    *servers
	err  error
}

// Main runs the tests of a package and then stops what [SharedEtcd] started
// for them. A package that shares a cluster needs
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
// It returns the exit code, which a TestMain that does nothing else can ignore.
func Main(m *testing.M) int {
	shared.mu.Lock()
	shared.open = true
	shared.mu.Unlock()
	// Deferred, so that a panic in TestMain's goroutine leaves nothing behind.
	defer stopShared()
	return m.Run()
}

// SharedEtcd returns a cluster that all tests of the package with the same
// options share. It is started for the first of them and stopped by [Main].
// Tests keep apart by using keys of their own, and cannot stop its nodes.
func SharedEtcd(tb Reporter, opts ...Option) *Cluster {
	tb.Helper()
	cfg, err := newConfig(opts)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	s, err := sharedServers(cfg)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	c := &Cluster{tb: tb, s: s}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("%s", c.Log())
		}
	})
	return c
}

func sharedServers(cfg config) (*servers, error) {
	key := fmt.Sprintf("%+v", cfg)
	shared.mu.Lock()
	if !shared.open {
		shared.mu.Unlock()
		return nil, errors.New("testenv: SharedEtcd needs func TestMain(m *testing.M) { testenv.Main(m) } in this package")
	}
	if shared.entries == nil {
		dir, err := os.MkdirTemp("", "coord-testenv-")
		if err != nil {
			shared.mu.Unlock()
			return nil, err
		}
		shared.dir, shared.entries = dir, map[string]*sharedEntry{}
	}
	entry := shared.entries[key]
	if entry == nil {
		entry = &sharedEntry{dir: filepath.Join(shared.dir, strconv.Itoa(len(shared.entries)))}
		shared.entries[key] = entry
	}
	shared.mu.Unlock()

	// A start takes a while; tests that share another cluster need not wait.
	entry.once.Do(func() {
		entry.s, entry.err = startServers(entry.dir, cfg)
		if entry.err == nil {
			entry.s.shared = true
		}
	})
	return entry.s, entry.err
}

// SharedZooKeeper returns an ensemble of 1 or 3 nodes that all tests of the
// package share. It is started for the first of them and stopped by [Main].
// Tests keep apart by using nodes of their own, and cannot stop its servers.
func SharedZooKeeper(tb Reporter, nodes int) *ZooKeeper {
	tb.Helper()
	shared.mu.Lock()
	if !shared.open {
		shared.mu.Unlock()
		tb.Fatalf("testenv: SharedZooKeeper needs func TestMain(m *testing.M) { testenv.Main(m) } in this package")
	}
	if shared.zoo == nil {
		shared.zoo = make(map[int]*sharedZoo)
	}
	entry := shared.zoo[nodes]
	if entry == nil {
		entry = &sharedZoo{}
		shared.zoo[nodes] = entry
	}
	shared.mu.Unlock()
	entry.once.Do(func() {
		var dir string
		if dir, entry.err = os.MkdirTemp("", "coord-testenv-"); entry.err != nil {
			return
		}
		if entry.s, entry.err = startZooKeeper(dir, nodes); entry.err == nil {
			entry.s.shared = true
		}
	})
	if entry.err != nil {
		tb.Fatalf("%v", entry.err)
	}
	z := &ZooKeeper{tb: tb, s: entry.s}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("%s", entry.s.log())
		}
	})
	return z
}

func stopShared() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.open = false
	for _, entry := range shared.zoo {
		if entry.s == nil {
			continue
		}
		if err := errors.Join(entry.s.close(), os.RemoveAll(entry.s.dir)); err != nil {
			fmt.Fprintln(os.Stderr, "testenv:", err)
		}
	}
	shared.zoo = nil
	for _, entry := range shared.entries {
		if entry.s == nil {
			continue
		}
		if err := entry.s.close(); err != nil {
			fmt.Fprintln(os.Stderr, "testenv:", err)
		}
	}
	shared.entries = nil
	if shared.dir == "" {
		return
	}
	if err := os.RemoveAll(shared.dir); err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
	}
	shared.dir = ""
}
