package zookeeper_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/conformance"
	"github.com/gocoord/coord/internal/testenv"
)

// harness opens every client through a proxy of its own for each node, so that
// one can be cut off without the others.
type harness struct {
	cluster *testenv.ZooKeeper
	mu      sync.Mutex
	proxies map[backend.Backend][]*testenv.Proxy
}

func newHarness(c *testenv.ZooKeeper) *harness {
	return &harness{cluster: c, proxies: make(map[backend.Backend][]*testenv.Proxy)}
}

func (h *harness) open(tb testing.TB) backend.Backend {
	tb.Helper()
	var (
		hosts   string
		proxies []*testenv.Proxy
	)
	for i, endpoint := range h.cluster.Endpoints() {
		p := testenv.NewProxy(tb, "tcp", endpoint)
		proxies = append(proxies, p)
		if i > 0 {
			hosts += ","
		}
		hosts += p.Addr()
	}
	open, err := backend.Parse(fmt.Sprintf("zookeeper://%s/conformance?session=4s", hosts))
	if err != nil {
		tb.Fatal(err)
	}
	b, err := open(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.proxies[b] = proxies
	return b
}

// each calls f with the proxies of a client.
func (h *harness) each(tb testing.TB, b backend.Backend, f func(*testenv.Proxy)) {
	tb.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.proxies[b]) == 0 {
		tb.Fatal("a client of another harness")
	}
	for _, p := range h.proxies[b] {
		f(p)
	}
}

// crash cuts the client off, so that nothing of its Close gets through.
func (h *harness) crash(tb testing.TB, b backend.Backend) {
	tb.Helper()
	h.each(tb, b, (*testenv.Proxy).Cut)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = b.Close()
	}()
	tb.Cleanup(func() { <-closed })
}

func (h *harness) suite() conformance.Harness {
	return conformance.Harness{
		Open: h.open,
		Expect: backend.Info{
			Name: "zookeeper", Scope: backend.Network, FIFO: true, Fencing: true, Durable: true,
			Expiry: 6 * time.Second, // the timeout, and what ZooKeeper takes to notice
		},
		Crash: h.crash,
		Sever: func(tb testing.TB, b backend.Backend) func() {
			h.each(tb, b, (*testenv.Proxy).Mute)
			return func() { h.each(tb, b, (*testenv.Proxy).Heal) }
		},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, newHarness(testenv.SharedZooKeeper(t, 1)).suite())
}

func TestConformanceThreeNodes(t *testing.T) {
	t.Parallel()
	conformance.Run(t, newHarness(testenv.SharedZooKeeper(t, 3)).suite())
}
