package zookeeper_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/testenv"
)

const (
	opCreate = 1
	opDelete = 2
	opMulti  = 14
)

// isRequest recognises a request with this operation that names the path.
func isRequest(op uint32, path string) func([]byte) bool {
	return func(p []byte) bool {
		return len(p) >= 12 && binary.BigEndian.Uint32(p[8:]) == op && strings.Contains(string(p), path)
	}
}

// behind opens a client with a proxy of its own.
func behind(tb testing.TB, z *testenv.ZooKeeper, query string) (backend.Backend, *testenv.Proxy) {
	tb.Helper()
	p := testenv.NewProxy(tb, "tcp", z.Endpoints()[0])
	return open(tb, p.Addr(), query), p
}

// A create that was carried out and not answered leads to one entry and one
// grant.
func TestLostReplyOfCreate(t *testing.T) {
	z := testenv.SharedZooKeeper(t, 1)
	a, proxy := behind(t, z, "?session=4s")
	b := open(t, hosts(z), "?session=4s")
	for range 3 {
		p := newPlace(backend.Mutex)
		warm := acquire(t, a, p, exclusive) // so that the place is there
		release(t, warm)
		cut := proxy.CutAfterRequest(isRequest(opCreate, linePath(p)+"/"))
		held := goAcquire(t, a, p, exclusive)
		<-cut
		l := held.Must()
		if r := roster(t, b, p, 1); r.Entries[0].ID != l.ID() || r.Entries[0].Token != l.Token() {
			t.Fatalf("entry %+v, want ID %s and token %d", r.Entries[0], l.ID(), l.Token())
		}
		next := goAcquire(t, b, p, exclusive)
		roster(t, b, p, 2)
		release(t, l)
		release(t, next.Must())
		proxy.Heal()
	}
}

// When the session expires before the reply could be found again, the node of
// the old session is not taken for the claim's.
func TestLostReplyOfCreateExpired(t *testing.T) {
	z := testenv.SharedZooKeeper(t, 1)
	a, proxy := behind(t, z, "?session=1s")
	b := open(t, hosts(z), "?session=4s")
	p := newPlace(backend.Mutex)
	release(t, acquire(t, a, p, exclusive))
	cut := proxy.CutAfterRequest(isRequest(opCreate, linePath(p)+"/"))
	held := goAcquire(t, a, p, exclusive)
	<-cut
	proxy.Cut()
	old := roster(t, b, p, 1).Entries[0]
	roster(t, b, p, 0) // the session expires
	proxy.Heal()
	l, err := held.Wait()
	if err != nil {
		wantErr(t, err, backend.ErrLost)
		l = acquire(t, a, p, exclusive)
	}
	if l.ID() == old.ID || l.Token() <= old.Token {
		t.Fatalf("lease %s with token %d after %s with %d: want another, and a greater token", l.ID(), l.Token(), old.ID, old.Token)
	}
	roster(t, b, p, 1)
	release(t, l)
}

// A create whose caller gave up while its reply was lost leaves nothing behind.
func TestLostReplyOfCreateCancelled(t *testing.T) {
	z := testenv.SharedZooKeeper(t, 1)
	a, proxy := behind(t, z, "?session=10s")
	b := open(t, hosts(z), "?session=4s")
	p := newPlace(backend.Mutex)
	release(t, acquire(t, a, p, exclusive))
	cut := proxy.CutAfterRequest(isRequest(opCreate, linePath(p)+"/"))
	held := goAcquire(t, a, p, exclusive)
	<-cut
	held.Cancel()
	_, err := held.Wait()
	wantErr(t, err, context.Canceled)
	start := time.Now()
	release(t, acquire(t, b, p, exclusive))
	if took := time.Since(start); took > 5*time.Second {
		t.Fatalf("the entry stayed for %v", took)
	}
	roster(t, b, p, 0)
}

func TestLostReplyOfDelete(t *testing.T) {
	z := testenv.SharedZooKeeper(t, 1)
	a, proxy := behind(t, z, "?session=4s")
	b := open(t, hosts(z), "?session=4s")
	p := newPlace(backend.Mutex)
	l := acquire(t, a, p, exclusive)
	cut := proxy.CutAfterRequest(isRequest(opDelete, linePath(p)+"/"))
	released := make(chan error, 1)
	go func() { released <- l.Release(testContext(t)) }()
	<-cut
	if err := <-released; err != nil {
		t.Fatalf("Release: %v; want it to find its own effect", err)
	}
	release(t, acquire(t, b, p, exclusive))
}

// The multi of a downgrade, and that of a Store.
func TestLostReplyOfMulti(t *testing.T) {
	z := testenv.SharedZooKeeper(t, 1)
	a, proxy := behind(t, z, "?session=4s")
	b := open(t, hosts(z), "?session=4s")
	p := newPlace(backend.RWMutex)
	l := acquire(t, a, p, exclusive)
	cut := proxy.CutAfterRequest(isRequest(opMulti, linePath(p)+"/"))
	done := make(chan error, 1)
	go func() { done <- l.Downgrade(testContext(t)) }()
	<-cut
	if err := <-done; err != nil {
		t.Fatalf("Downgrade: %v", err)
	}
	if e := roster(t, b, p, 1).Entries[0]; e.Claim.Mode != backend.Shared || e.ID != l.ID() || e.Token != l.Token() {
		t.Fatalf("after the downgrade: %+v, want the shared entry %s with token %d", e, l.ID(), l.Token())
	}
	release(t, l)

	proxy.Heal()
	q := newPlace(backend.Latch)
	v, err := a.Store(testContext(t), q, []byte("one"), "0")
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{[]byte("two"), nil, []byte("three")} {
		cut = proxy.CutAfterRequest(isRequest(opMulti, "/test/registers/latches/"+q.Name))
		go func() {
			var err error
			v, err = a.Store(testContext(t), q, data, v)
			done <- err
		}()
		<-cut
		if err := <-done; err != nil {
			t.Fatalf("Store of %q: %v", data, err)
		}
		if now, err := b.Load(testContext(t), q, ""); err != nil || string(now.Data) != string(data) || now.Version != v {
			t.Fatalf("Load after the Store of %q: %q at %s, error %v; want version %s", data, now.Data, now.Version, err, v)
		}
		proxy.Heal()
	}
}

// In a network that swallows everything a hold ends before the server can give
// it to another.
func TestBlackHole(t *testing.T) {
	z := testenv.SharedZooKeeper(t, 1)
	a, proxy := behind(t, z, "?session=2s")
	b := open(t, hosts(z), "?session=4s")
	p := newPlace(backend.Mutex)
	l := acquire(t, a, p, exclusive)
	next := goAcquire(t, b, p, exclusive)
	roster(t, b, p, 2)
	proxy.Mute()
	select {
	case <-l.Done():
		select {
		case <-next.Done:
			t.Fatal("the next holder was admitted before the first one was told")
		default:
		}
	case <-next.Done:
		t.Fatal("the next holder was admitted before the first one was told")
	}
	wantErr(t, l.Err(), backend.ErrLost)
	if got := next.Must(); got.Token() <= l.Token() {
		t.Fatalf("token %d after %d", got.Token(), l.Token())
	}
	proxy.HealDropping()
	release(t, next.Lease)
	release(t, acquire(t, a, p, exclusive))
}

// An interruption shorter than the session loses nothing.
func TestBlip(t *testing.T) {
	z := testenv.SharedZooKeeper(t, 1)
	a, proxy := behind(t, z, "?session=10s")
	p := newPlace(backend.Mutex)
	l := acquire(t, a, p, exclusive)
	wait := goAcquire(t, a, p, exclusive)
	roster(t, a, p, 2)
	proxy.Cut()
	time.Sleep(300 * time.Millisecond) // the length of the interruption
	proxy.Heal()
	roster(t, a, p, 2)
	if err := l.Err(); err != nil {
		t.Fatalf("lost by a blip: %v", err)
	}
	release(t, l)
	release(t, wait.Must())
}

func stat(t *testing.T, z *testenv.ZooKeeper, key string) int {
	t.Helper()
	for line := range strings.Lines(z.Ask(0, "mntr")) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok && k == key {
			n, err := strconv.Atoi(v)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("mntr has no %s", key)
	return 0
}

// Failed TryLocks and cancelled waits leave nothing.
func TestNothingPilesUp(t *testing.T) {
	z := testenv.NewZooKeeper(t, 1)
	a, b := open(t, hosts(z), ""), open(t, hosts(z), "")
	p := newPlace(backend.Mutex)
	l := acquire(t, a, p, exclusive)
	once := func() {
		_, err := b.Acquire(testContext(t), p, noWait)
		wantErr(t, err, backend.ErrBusy)
		w := goAcquire(t, b, p, exclusive)
		roster(t, a, p, 2)
		w.Cancel()
		_, err = w.Wait()
		wantErr(t, err, context.Canceled)
		roster(t, a, p, 1)
	}
	once()
	watchesBefore, nodes, routines := stat(t, z, "zk_watch_count"), stat(t, z, "zk_znode_count"), runtime.NumGoroutine()
	for range 50 {
		once()
	}
	for range 10000 {
		if _, err := b.Acquire(context.Background(), p, noWait); err == nil {
			t.Fatal("a TryLock of a held lock succeeded")
		}
	}
	if n := stat(t, z, "zk_watch_count"); n > watchesBefore+2 {
		t.Errorf("%d watches, %d before", n, watchesBefore)
	}
	if n := stat(t, z, "zk_znode_count"); n > nodes {
		t.Errorf("%d nodes, %d before", n, nodes)
	}
	if n := runtime.NumGoroutine(); n > routines+5 {
		t.Errorf("%d goroutines, %d before", n, routines)
	}
	release(t, l)
}

// Places disappear when nobody uses them, and clients that use and empty them
// all the time do not notice.
func TestPlacesDisappear(t *testing.T) {
	z := testenv.NewZooKeeper(t, 1)
	conn := raw(t, z)
	var all sync.WaitGroup
	stop := make(chan struct{})
	for i := range 8 {
		b := open(t, hosts(z), "")
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				p := backend.Place{Kind: backend.Mutex, Name: fmt.Sprintf("n%d", (n+i)%4)}
				l, err := b.Acquire(context.Background(), p, exclusive)
				if err == nil {
					err = l.Release(context.Background())
				}
				if err != nil {
					t.Errorf("client %d, round %d: %v", i, n, err)
					return
				}
			}
		})
	}
	removed := 0
	for start := time.Now(); time.Since(start) < 4*time.Second; {
		for i := range 4 {
			if conn.Delete(fmt.Sprintf("/test/locks/n%d", i), -1) == nil {
				removed++
			}
		}
	}
	close(stop)
	all.Wait()
	if removed == 0 {
		t.Error("no place was ever removed while in use: this test shows nothing")
	}
	awaitEmpty(t, conn, "/test/locks")
	if _, _, err := conn.Children("/test/locks"); err != nil {
		t.Error(err)
	}
}

// Nodes that are no entries are ignored; those of other clients are not.
func TestForeignChildren(t *testing.T) {
	z := testenv.SharedZooKeeper(t, 1)
	a, conn := open(t, hosts(z), ""), raw(t, z)
	p := newPlace(backend.Mutex)
	release(t, acquire(t, a, p, exclusive))
	for _, name := range []string{"notes", "lock", "leases", "lock-12", "x-0000000001"} {
		if _, err := conn.Create(linePath(p)+"/"+name, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	release(t, acquire(t, a, p, noWait))
	for _, name := range []string{"lock-", "_c_6a1f-lock-", "abc__lock__", "_c_1-__WRIT__", "_c_1-__READ__", "abc__rlock__"} {
		node, err := conn.Create(linePath(p)+"/"+name, nil, zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
		if err != nil {
			t.Fatal(err)
		}
		wait := goAcquire(t, a, p, exclusive)
		roster(t, a, p, 2)
		wait.Waiting(50 * time.Millisecond)
		if err := conn.Delete(node, -1); err != nil {
			t.Fatal(err)
		}
		release(t, wait.Must())
	}
}

// A waiter that watches the only one ahead is not admitted when that becomes a
// reader.
func TestDowngradeWithQueuedWriter(t *testing.T) {
	z := testenv.SharedZooKeeper(t, 1)
	for _, query := range []string{"", "?layout=kazoo"} {
		a, b, c := open(t, hosts(z), query), open(t, hosts(z), query), open(t, hosts(z), query)
		p := newPlace(backend.RWMutex)
		l := acquire(t, a, p, exclusive)
		writer := goAcquire(t, b, p, exclusive)
		roster(t, c, p, 2)
		if err := l.Downgrade(testContext(t)); err != nil {
			t.Fatal(err)
		}
		writer.Waiting(200 * time.Millisecond)
		_, err := c.Acquire(testContext(t), p, backend.Claim{Mode: backend.Shared, NoWait: true})
		wantErr(t, err, backend.ErrBusy) // the writer was first
		release(t, l)
		release(t, writer.Must())
	}
}

// The leader is killed under a held lock, with somebody waiting.
func TestLeaderKilled(t *testing.T) {
	z := testenv.NewZooKeeper(t, 3)
	a, b := open(t, hosts(z), "?session=8s"), open(t, hosts(z), "?session=8s")
	p := newPlace(backend.Mutex)
	l := acquire(t, a, p, exclusive)
	next := goAcquire(t, b, p, exclusive)
	roster(t, a, p, 2)
	leader := z.Leader()
	z.Kill(leader)
	if z.Leader() == leader {
		t.Fatal("a dead server leads")
	}
	roster(t, a, p, 2)
	if err := l.Err(); err != nil {
		t.Fatalf("lost by a change of leaders: %v", err)
	}
	next.Waiting(100 * time.Millisecond)
	release(t, l)
	if got := next.Must(); got.Token() <= l.Token() {
		t.Fatalf("token %d after %d", got.Token(), l.Token())
	}
	release(t, next.Lease)
}
