package conformance

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/backend/memory"
	"go.uber.org/goleak"
)

// onMemory is a harness of the memory backend: a space for each run of a check.
func onMemory() Harness {
	return Harness{
		Open:    func(tb testing.TB) backend.Backend { return memory.Open(tb.Name()) },
		Expect:  backend.Info{Name: "memory", Scope: backend.Process, FIFO: true, Fencing: true},
		Virtual: true,
	}
}

func TestMemory(t *testing.T) { Run(t, onMemory()) }

func TestMemoryByURL(t *testing.T) {
	h := onMemory()
	h.Open = func(testing.TB) backend.Backend { return memory.Open("by-url") }
	h.URL = "memory://by-url"
	h.Virtual = false
	h.only = func(c check) bool { return strings.HasPrefix(c.name, "Info/") }
	Run(t, h)
}

func BenchmarkMemory(b *testing.B) {
	Bench(b, onMemory())
}

func TestMemoryInRealTime(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	h := onMemory()
	h.Virtual = false
	Run(t, h)
}

// What stands on the contract must stand a bad day, too.
func TestChaos(t *testing.T) {
	for name, day := range map[string]struct {
		mood mood
		only func(name string) bool
	}{
		"Changes": {mood{change: 0.2}, func(string) bool { return true }},
		// A caller has to ask again, but does not lose its place in line.
		"Reads": {mood{change: 0.1, read: 0.1}, subjects("Barrier", "Rounds", "Latch", "History")},
		// A claim loses its place now and then, or is counted and then gone.
		"All": {mood{change: 0.1, read: 0.1, acquire: 0.1}, subjects("Rounds/ManyCancel", "Rounds/MoreThanParties", "History")},
	} {
		t.Run(name, func(t *testing.T) {
			h := onMemory()
			h.flaky = true
			h.only = func(c check) bool { return c.tough && day.only(c.name) }
			var clients atomic.Uint64
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			h.Open = func(tb testing.TB) backend.Backend {
				return newChaos(memory.Open(tb.Name()), seed+clients.Add(1), day.mood)
			}
			Run(t, h)
		})
	}
}

// Chaos without failures is a slow backend, and keeps every promise.
func TestSlow(t *testing.T) {
	h := onMemory()
	h.Expect.Scope = backend.Host
	h.Open = func(tb testing.TB) backend.Backend { return newChaos(memory.Open(tb.Name()), 1, mood{}) }
	Run(t, h)
}

func subjects(prefixes ...string) func(string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
	}
}
