package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// shared holds the services that the tests of this package have in common.
var shared struct {
	mu      sync.Mutex
	open    bool // Main runs, so somebody will stop them
	dir     string
	entries map[string]*sharedEntry
}

type sharedEntry struct {
	dir     string
	once    sync.Once
	service interface{ close() error }
	err     error
}

// Main runs the tests of a package and then stops what [SharedEtcd] and
// [SharedZooKeeper] started for them. A package that uses these needs
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
	return share("SharedEtcd", fmt.Sprintf("etcd %+v", cfg), func(dir string) (*servers, error) {
		s, err := startServers(dir, cfg)
		if err == nil {
			s.shared = true
		}
		return s, err
	})
}

// SharedZooKeeper returns an ensemble of 1 or 3 nodes that all tests of the
// package share. It is started for the first of them and stopped by [Main].
// Tests keep apart by using nodes of their own, and cannot stop its servers.
func SharedZooKeeper(tb Reporter, nodes int) *ZooKeeper {
	tb.Helper()
	s, err := share("SharedZooKeeper", fmt.Sprintf("ZooKeeper %d", nodes), func(dir string) (*zooServers, error) {
		s, err := startZooKeeper(dir, nodes)
		if err == nil {
			s.shared = true
		}
		return s, err
	})
	if err != nil {
		tb.Fatalf("%v", err)
	}
	z := &ZooKeeper{tb: tb, s: s}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("%s", s.log())
		}
	})
	return z
}

// share returns the service with this key, which start makes for the first who
// asks for it.
func share[S interface{ close() error }](caller, key string, start func(dir string) (S, error)) (S, error) {
	var none S
	shared.mu.Lock()
	if !shared.open {
		shared.mu.Unlock()
		return none, fmt.Errorf("testenv: %s needs func TestMain(m *testing.M) { testenv.Main(m) } in this package", caller)
	}
	if shared.entries == nil {
		dir, err := os.MkdirTemp("", "coord-testenv-")
		if err != nil {
			shared.mu.Unlock()
			return none, err
		}
		shared.dir, shared.entries = dir, map[string]*sharedEntry{}
	}
	entry := shared.entries[key]
	if entry == nil {
		entry = &sharedEntry{dir: filepath.Join(shared.dir, strconv.Itoa(len(shared.entries)))}
		shared.entries[key] = entry
	}
	shared.mu.Unlock()

	// A start takes a while; tests that share another service need not wait.
	entry.once.Do(func() {
		s, err := start(entry.dir)
		if entry.err = err; err == nil {
			entry.service = s
		}
	})
	if entry.err != nil {
		return none, entry.err
	}
	return entry.service.(S), nil
}

func stopShared() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.open = false
	for _, entry := range shared.entries {
		if entry.service == nil {
			continue
		}
		if err := entry.service.close(); err != nil {
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
