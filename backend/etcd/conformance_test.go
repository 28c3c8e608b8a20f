package etcd_test

import (
	"testing"
	"time"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/conformance"
	"github.com/gocoord/coord/internal/drivertest"
	"github.com/gocoord/coord/internal/testenv"
)

// harness opens every client through proxies of its own.
func harness(c *testenv.Cluster) conformance.Harness {
	return drivertest.Harness(c.Endpoints(),
		func(hosts string) string { return "etcd://" + hosts + "/conformance?ttl=3s" },
		backend.Info{
			Name: "etcd", Scope: backend.Network, FIFO: true, Fencing: true, Durable: true,
			Expiry: 5 * time.Second, // the ttl, and what etcd takes to notice
		})
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, harness(testenv.SharedEtcd(t)))
}

func TestConformanceThreeNodes(t *testing.T) {
	t.Parallel()
	conformance.Run(t, harness(testenv.SharedEtcd(t, testenv.Nodes(3))))
}
