package etcd_test

import (
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/gocoord/coord/backend/etcd"
	"github.com/gocoord/coord/internal/drivertest"
	"github.com/gocoord/coord/internal/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(drivertest.Main(func() int { return testenv.Main(m) }))
}

type acquiring = drivertest.Acquiring

var (
	testContext = drivertest.Context
	newPlace    = drivertest.NewPlace
	tryOpen     = drivertest.TryOpen[*etcd.Backend]
	acquire     = drivertest.Acquire
	goAcquire   = drivertest.Go
	release     = drivertest.Release
	roster      = drivertest.Roster
	wantErr     = drivertest.WantErr
	ended       = drivertest.Ended

	exclusive = drivertest.Exclusive
	shared    = drivertest.Shared
	presence  = drivertest.Presence
	noWait    = drivertest.NoWait
)

func open(tb testing.TB, hosts, query string) *etcd.Backend {
	tb.Helper()
	return drivertest.Open[*etcd.Backend](tb, "etcd://"+hosts+"/test"+query)
}

func hosts(c *testenv.Cluster) string { return strings.Join(c.Endpoints(), ",") }

// raw is a plain client of the cluster.
func raw(tb testing.TB, c *testenv.Cluster) *clientv3.Client {
	tb.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: c.URLs(), Logger: zap.NewNop(), TLS: c.TLSConfig()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// nothingRuns wants all goroutines begun since to have ended. gRPC does not
// wait for its own when a connection is closed.
func nothingRuns(tb testing.TB, before goleak.Option) {
	tb.Helper()
	var err error
	for start := time.Now(); time.Since(start) < 5*time.Second; {
		if err = goleak.Find(before); err == nil {
			return
		}
	}
	tb.Error(err)
}
