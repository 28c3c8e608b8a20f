package zookeeper_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/backend/zookeeper"
	"github.com/gocoord/coord/internal/drivertest"
	"github.com/gocoord/coord/internal/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(drivertest.Main(func() int { return testenv.Main(m) }))
}

const patience = drivertest.Patience

var (
	testContext = drivertest.Context
	newPlace    = drivertest.NewPlace
	tryOpen     = drivertest.TryOpen[*zookeeper.Backend]
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

func open(tb testing.TB, hosts, query string) *zookeeper.Backend {
	tb.Helper()
	return drivertest.Open[*zookeeper.Backend](tb, "zk://"+hosts+"/test"+query)
}

func linePath(p backend.Place) string { return "/test/" + p.Kind.Dir() + "/" + p.Name }

func hosts(z *testenv.ZooKeeper) string { return strings.Join(z.Endpoints(), ",") }

// silent is a zk.Logger.
type silent struct{}

func (silent) Printf(string, ...any) {}

// raw is a plain client of the ensemble.
func raw(tb testing.TB, z *testenv.ZooKeeper) *zk.Conn {
	tb.Helper()
	conn, _, err := zk.Connect(z.Endpoints(), 10*time.Second, zk.WithLogger(silent{}))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(conn.Close)
	return conn
}

// awaitEmpty waits until a node has no children, or is gone.
func awaitEmpty(tb testing.TB, conn *zk.Conn, path string) {
	tb.Helper()
	for timeout := time.After(patience); ; {
		names, _, changed, err := conn.ChildrenW(path)
		if errors.Is(err, zk.ErrNoNode) || err == nil && len(names) == 0 {
			return
		}
		if err != nil {
			tb.Fatal(err)
		}
		select {
		case <-changed:
		case <-timeout:
			tb.Fatalf("%q are still in %s", names, path)
		}
	}
}
