package zookeeper_test

import (
	"testing"
	"time"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/conformance"
	"github.com/gocoord/coord/internal/drivertest"
	"github.com/gocoord/coord/internal/testenv"
)

// harness opens every client through proxies of its own.
func harness(z *testenv.ZooKeeper) conformance.Harness {
	return drivertest.Harness(z.Endpoints(),
		func(hosts string) string { return "zookeeper://" + hosts + "/conformance?session=4s" },
		backend.Info{
			Name: "zookeeper", Scope: backend.Network, FIFO: true, Fencing: true, Durable: true,
			Expiry: 6 * time.Second, // the timeout, and what ZooKeeper takes to notice
		})
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, harness(testenv.SharedZooKeeper(t, 1)))
}

func TestConformanceThreeNodes(t *testing.T) {
	t.Parallel()
	conformance.Run(t, harness(testenv.SharedZooKeeper(t, 3)))
}
