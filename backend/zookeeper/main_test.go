package zookeeper_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/backend/zookeeper"
	"github.com/gocoord/coord/internal/testenv"
)

func TestMain(m *testing.M) {
	if helper := os.Getenv("COORD_ZOOKEEPER_HELPER"); helper != "" {
		os.Exit(runHelper(helper))
	}
	os.Exit(testenv.Main(m))
}

const patience = 20 * time.Second

func testContext(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	tb.Cleanup(cancel)
	return ctx
}

var places atomic.Int64

// newPlace returns a place that no other test uses.
func newPlace(kind backend.Kind) backend.Place {
	return backend.Place{Kind: kind, Name: fmt.Sprintf("place-%d-%d", os.Getpid(), places.Add(1))}
}

func linePath(p backend.Place) string { return "/test/" + p.Kind.Dir() + "/" + p.Name }

func open(tb testing.TB, hosts, query string) *zookeeper.Backend {
	tb.Helper()
	b, err := tryOpen(testContext(tb), "zk://"+hosts+"/test"+query)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = b.Close() })
	return b
}

func tryOpen(ctx context.Context, url string) (*zookeeper.Backend, error) {
	opener, err := backend.Parse(url)
	if err != nil {
		return nil, err
	}
	b, err := opener(ctx)
	if err != nil {
		return nil, err
	}
	return b.(*zookeeper.Backend), nil
}

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

func acquire(tb testing.TB, b backend.Backend, p backend.Place, c backend.Claim) backend.Lease {
	tb.Helper()
	l, err := b.Acquire(testContext(tb), p, c)
	if err != nil {
		tb.Fatalf("Acquire: %v", err)
	}
	return l
}

// acquiring is an Acquire in progress.
type acquiring struct {
	tb     testing.TB
	cancel context.CancelFunc
	done   chan struct{}
	lease  backend.Lease
	err    error
}

func goAcquire(tb testing.TB, b backend.Backend, p backend.Place, c backend.Claim) *acquiring {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	a := &acquiring{tb: tb, cancel: cancel, done: make(chan struct{})}
	tb.Cleanup(cancel)
	go func() {
		defer close(a.done)
		a.lease, a.err = b.Acquire(ctx, p, c)
	}()
	return a
}

func (a *acquiring) wait() (backend.Lease, error) {
	a.tb.Helper()
	select {
	case <-a.done:
		return a.lease, a.err
	case <-time.After(patience):
		a.tb.Fatal("Acquire does not return")
		return nil, nil
	}
}

func (a *acquiring) must() backend.Lease {
	a.tb.Helper()
	l, err := a.wait()
	if err != nil {
		a.tb.Fatalf("Acquire: %v", err)
	}
	return l
}

func (a *acquiring) waiting(d time.Duration) {
	a.tb.Helper()
	select {
	case <-a.done:
		a.tb.Fatalf("Acquire returned, lease %v, error %v; want it to wait", a.lease != nil, a.err)
	case <-time.After(d):
	}
}

func release(tb testing.TB, l backend.Lease) {
	tb.Helper()
	if err := l.Release(testContext(tb)); err != nil {
		tb.Fatalf("Release: %v", err)
	}
}

// roster waits until the line of p has n entries.
func roster(tb testing.TB, b backend.Backend, p backend.Place, n int) backend.Roster {
	tb.Helper()
	ctx := testContext(tb)
	var r backend.Roster
	var err error
	for {
		if r, err = b.Observe(ctx, p, r.Version); err != nil {
			tb.Fatalf("Observe, waiting for %d entries and seeing %d: %v", n, len(r.Entries), err)
		}
		if len(r.Entries) == n {
			return r
		}
	}
}

func wantErr(tb testing.TB, err, want error) {
	tb.Helper()
	if !errors.Is(err, want) {
		tb.Fatalf("error %v, want %v", err, want)
	}
}

func ended(tb testing.TB, l backend.Lease, within time.Duration) {
	tb.Helper()
	select {
	case <-l.Done():
	case <-time.After(within):
		tb.Fatalf("Done did not close within %v", within)
	}
}

var (
	exclusive = backend.Claim{Mode: backend.Exclusive, Owner: "test"}
	shared    = backend.Claim{Mode: backend.Shared, Owner: "test"}
	presence  = backend.Claim{Mode: backend.Presence}
	noWait    = backend.Claim{Mode: backend.Exclusive, NoWait: true}
)
