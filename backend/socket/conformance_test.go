//go:build linux || darwin

package socket

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/conformance"
	"github.com/gocoord/coord/internal/testenv"
)

// paths gives all clients of one test one path.
type paths struct {
	mu sync.Mutex
	of map[testing.TB]string
}

func (p *paths) path(tb testing.TB) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = make(map[testing.TB]string)
	}
	if p.of[tb] == "" {
		p.of[tb] = filepath.Join(tb.TempDir(), "s")
	}
	return p.of[tb]
}

func harness() conformance.Harness {
	var p paths
	return conformance.Harness{
		Open: func(tb testing.TB) backend.Backend {
			b, err := Open(tb.Context(), p.path(tb))
			if err != nil {
				tb.Fatal(err)
			}
			return b
		},
		Expect: backend.Info{Name: "socket", Scope: backend.Host, FIFO: true, Fencing: true, Durable: true},
		Crash: func(tb testing.TB, b backend.Backend) {
			s, ok := b.(*Backend)
			if !ok {
				tb.Fatalf("a backend of type %T", b)
			}
			s.crash()
		},
	}
}

// TestConformance is of processes that serve one another, as they usually are.
// There is no Sever, since one of the clients is the server.
func TestConformance(t *testing.T) { conformance.Run(t, harness()) }

// A keeper serves a path for one test, and its clients come through proxies.
type keeper struct {
	paths
	mu      sync.Mutex
	keeping map[testing.TB]bool
	proxies map[backend.Backend]*testenv.Proxy
}

// open makes a client that can be cut off.
func (k *keeper) open(tb testing.TB) backend.Backend {
	path := k.path(tb)
	k.mu.Lock()
	first := !k.keeping[tb]
	k.keeping[tb] = true
	k.mu.Unlock()
	if first {
		opened(tb, path)
		tb.Cleanup(func() { // in the middle of a test, too
			k.mu.Lock()
			defer k.mu.Unlock()
			k.keeping[tb] = false
		})
	}
	p := testenv.NewProxy(tb, "unix", path)
	b, err := Open(tb.Context(), path, func(c *config) { c.via = p.Addr() })
	if err != nil {
		tb.Fatal(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.proxies[b] = p
	return b
}

// sever makes the server mute for one client, and the client for the server:
// as far as it can see, the server is stopped. Nothing can part them more than
// that on one host. A connection that breaks is made again at once.
func (k *keeper) sever(_ testing.TB, b backend.Backend) (heal func()) {
	k.mu.Lock()
	p := k.proxies[b]
	k.mu.Unlock()
	p.Mute()
	return p.Heal
}

// TestConformanceServed is of clients of which none is the server.
func TestConformanceServed(t *testing.T) {
	old := patience
	patience = 3 * time.Second
	t.Cleanup(func() { patience = old })
	k := &keeper{keeping: make(map[testing.TB]bool), proxies: make(map[backend.Backend]*testenv.Proxy)}
	h := harness()
	h.Open, h.Sever = k.open, k.sever
	conformance.Run(t, h)
}
