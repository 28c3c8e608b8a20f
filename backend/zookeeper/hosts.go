package zookeeper

import (
	"math/rand/v2"
	"slices"
	"sync"
)

// hosts is a zk.HostProvider that leaves names to the Dialer, which resolves
// them anew for each connection, and that does not pause before the first
// attempt after a connection was lost.
type hosts struct {
	d       *Dialer
	mu      sync.Mutex
	servers []string
	next    int
	failed  int // attempts since the last success
}

func (h *hosts) Init(servers []string) error {
	h.servers = slices.Clone(servers)
	rand.Shuffle(len(h.servers), func(i, j int) { h.servers[i], h.servers[j] = h.servers[j], h.servers[i] })
	return nil
}

func (h *hosts) Len() int { return len(h.servers) }

// Next answers true after two rounds without success: the client then fails
// what waits for a connection, and pauses for a second.
func (h *hosts) Next() (string, bool) {
	closed := h.d.isClosed()
	h.mu.Lock()
	defer h.mu.Unlock()
	server := h.servers[h.next%len(h.servers)]
	h.next++
	h.failed++
	return server, closed || h.failed > 1 && (h.failed-1)%(2*len(h.servers)) == 0
}

func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = 0
}
