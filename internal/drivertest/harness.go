package drivertest

import (
	"strings"
	"sync"
	"testing"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/conformance"
	"github.com/gocoord/coord/internal/testenv"
)

// harness opens every client through a proxy of its own for each node, so that
// one can be cut off without the others.
type harness struct {
	endpoints []string
	url       func(hosts string) string
	mu        sync.Mutex
	proxies   map[backend.Backend][]*testenv.Proxy
}

// Harness is that of the suite for a service of these endpoints. Its url makes
// a URL of a list of hosts.
func Harness(endpoints []string, url func(hosts string) string, expect backend.Info) conformance.Harness {
	h := &harness{endpoints: endpoints, url: url, proxies: make(map[backend.Backend][]*testenv.Proxy)}
	return conformance.Harness{
		Open:   h.open,
		Expect: expect,
		Crash:  h.crash,
		Sever: func(tb testing.TB, b backend.Backend) func() {
			h.each(tb, b, (*testenv.Proxy).Mute)
			return func() { h.each(tb, b, (*testenv.Proxy).Heal) }
		},
	}
}

func (h *harness) open(tb testing.TB) backend.Backend {
	tb.Helper()
	var hosts []string
	var proxies []*testenv.Proxy
	for _, endpoint := range h.endpoints {
		p := testenv.NewProxy(tb, "tcp", endpoint)
		proxies = append(proxies, p)
		hosts = append(hosts, p.Addr())
	}
	b, err := TryOpen[backend.Backend](tb.Context(), h.url(strings.Join(hosts, ",")))
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
