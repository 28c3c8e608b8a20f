package etcd_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/testenv"
)

func TestUncontendedIsOneRequestEach(t *testing.T) {
	c := testenv.Etcd(t)
	b := open(t, hosts(c), "?ttl=60s")
	p := newPlace(backend.Mutex)
	release(t, acquire(t, b, p, exclusive))
	got := c.RequestsDuring(t, func() {
		for range 10 {
			release(t, acquire(t, b, p, exclusive))
		}
	})
	if got["Txn"] != 10 || got["DeleteRange"] != 10 || len(got) != 2 {
		t.Errorf("requests of 10 uncontended locks: %v, want 10 Txn, 10 DeleteRange", got)
	}
	got = c.RequestsDuring(t, func() {
		for range 10 {
			release(t, acquire(t, b, p, noWait))
		}
	})
	if got["Txn"] != 10 || got["DeleteRange"] != 10 || len(got) != 2 {
		t.Errorf("requests of 10 tries: %v, want 10 Txn, 10 DeleteRange", got)
	}
	hold := acquire(t, b, p, exclusive)
	other := open(t, hosts(c), "?ttl=60s")
	got = c.RequestsDuring(t, func() {
		for range 10 {
			_, err := other.Acquire(testContext(t), p, noWait)
			wantErr(t, err, backend.ErrBusy)
		}
	})
	if got["Txn"] != 10 || len(got) != 1 {
		t.Errorf("requests of 10 failing tries: %v, want 10 Txn", got)
	}
	release(t, hold)
}

func TestOrderOfArrival(t *testing.T) {
	c := testenv.SharedEtcd(t)
	p := newPlace(backend.Mutex)
	first := open(t, hosts(c), "")
	hold := acquire(t, first, p, exclusive)
	var waiting []*acquiring
	for i := range 6 {
		b := first
		if i%2 == 0 {
			b = open(t, hosts(c), "")
		}
		waiting = append(waiting, goAcquire(t, b, p, exclusive))
		roster(t, first, p, i+2)
	}
	token := hold.Token()
	for i, w := range waiting {
		w.Waiting(5 * time.Millisecond)
		release(t, hold)
		hold = w.Must()
		if hold.Token() <= token {
			t.Fatalf("token %d of waiter %d after %d", hold.Token(), i, token)
		}
		token = hold.Token()
	}
	release(t, hold)
	roster(t, first, p, 0)
}

func TestReadersAndWriters(t *testing.T) {
	c := testenv.SharedEtcd(t)
	p := newPlace(backend.RWMutex)
	b, other := open(t, hosts(c), ""), open(t, hosts(c), "")
	r1 := acquire(t, b, p, shared)
	r2 := acquire(t, other, p, shared)
	w := goAcquire(t, other, p, exclusive)
	roster(t, b, p, 3)
	r3 := goAcquire(t, b, p, shared)
	roster(t, b, p, 4)
	_, err := b.Acquire(testContext(t), p, backend.Claim{Mode: backend.Shared, NoWait: true})
	wantErr(t, err, backend.ErrBusy)
	r3.Waiting(20 * time.Millisecond)
	release(t, r1)
	w.Waiting(20 * time.Millisecond)
	release(t, r2)
	writer := w.Must()
	r3.Waiting(20 * time.Millisecond)
	w2 := goAcquire(t, b, p, exclusive)
	roster(t, b, p, 3)
	if err := writer.Downgrade(testContext(t)); err != nil {
		t.Fatal(err)
	}
	reader := r3.Must()
	w2.Waiting(20 * time.Millisecond)
	release(t, writer)
	release(t, reader)
	release(t, w2.Must())
	roster(t, b, p, 0)
}

func TestCancelledWriterMakesRoom(t *testing.T) {
	c := testenv.SharedEtcd(t)
	p := newPlace(backend.RWMutex)
	b, other := open(t, hosts(c), ""), open(t, hosts(c), "")
	for _, from := range []*struct{ w, r backend.Backend }{{b, b}, {b, other}, {other, b}, {other, other}} {
		r1 := acquire(t, b, p, shared)
		w := goAcquire(t, from.w, p, exclusive)
		roster(t, b, p, 2)
		r2 := goAcquire(t, from.r, p, shared)
		roster(t, b, p, 3)
		r2.Waiting(5 * time.Millisecond)
		w.Cancel()
		_, err := w.Wait()
		wantErr(t, err, context.Canceled)
		release(t, r2.Must())
		release(t, r1)
		roster(t, b, p, 0)
	}
}

func TestSemaphore(t *testing.T) {
	c := testenv.SharedEtcd(t)
	p := newPlace(backend.Semaphore)
	b, other := open(t, hosts(c), ""), open(t, hosts(c), "")
	permit := func(n int64) backend.Claim { return backend.Claim{Mode: backend.Permit, Weight: n, Limit: 3} }
	p1, p2 := acquire(t, b, p, permit(1)), acquire(t, other, p, permit(1))
	both := goAcquire(t, other, p, permit(3))
	roster(t, b, p, 3)
	one := goAcquire(t, b, p, permit(1))
	roster(t, b, p, 4)
	_, err := b.Acquire(testContext(t), p, backend.Claim{Mode: backend.Permit, Weight: 1, Limit: 4})
	wantErr(t, err, backend.ErrMismatch)
	_, err = b.Acquire(testContext(t), p, backend.Claim{Mode: backend.Permit, Weight: 1, Limit: 4, NoWait: true})
	wantErr(t, err, backend.ErrMismatch)
	release(t, p1)
	both.Waiting(20 * time.Millisecond)
	one.Waiting(20 * time.Millisecond)
	release(t, p2)
	all := both.Must()
	one.Waiting(20 * time.Millisecond)
	release(t, all)
	release(t, one.Must())
	roster(t, b, p, 0)
}

func TestMutualExclusion(t *testing.T) {
	c := testenv.SharedEtcd(t)
	p := newPlace(backend.Mutex)
	counter, token := 0, uint64(0)
	var wg sync.WaitGroup
	const clients, each, rounds = 4, 4, 25
	for range clients {
		b := open(t, hosts(c), "")
		for range each {
			wg.Go(func() {
				for range rounds {
					l, err := b.Acquire(testContext(t), p, exclusive)
					if err != nil {
						t.Errorf("Acquire: %v", err)
						return
					}
					counter++
					if l.Token() <= token {
						t.Errorf("token %d after %d", l.Token(), token)
					}
					token = l.Token()
					if err := l.Release(testContext(t)); err != nil {
						t.Errorf("Release: %v", err)
					}
				}
			})
		}
	}
	wg.Wait()
	if want := clients * each * rounds; counter != want {
		t.Errorf("counted to %d, want %d", counter, want)
	}
}

func TestCancelLeavesNothing(t *testing.T) {
	c := testenv.SharedEtcd(t)
	p := newPlace(backend.Mutex)
	b, other := open(t, hosts(c), ""), open(t, hosts(c), "")
	hold := acquire(t, other, p, exclusive)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			delay := []time.Duration{0, 0, 1, 2, 5, 10, 20, 50}[i%8] * time.Millisecond
			ctx, cancel := context.WithTimeout(context.Background(), delay+time.Duration(i)*50*time.Microsecond)
			defer cancel()
			_, err := b.Acquire(ctx, p, exclusive)
			wantErr(t, err, context.DeadlineExceeded)
		})
	}
	wg.Wait()
	roster(t, b, p, 1)
	release(t, hold)
	release(t, acquire(t, other, p, exclusive))
	roster(t, b, p, 0)
}

func TestNothingStaysAfterClose(t *testing.T) {
	c := testenv.Etcd(t)
	before := goleak.IgnoreCurrent()
	b, other := open(t, hosts(c), ""), open(t, hosts(c), "")
	p := newPlace(backend.Mutex)
	hold := acquire(t, b, p, exclusive)
	w := goAcquire(t, other, p, exclusive)
	mine := goAcquire(t, b, p, exclusive)
	roster(t, b, p, 3)
	observing := make(chan error, 1)
	go func() {
		_, err := b.Load(context.Background(), p, "0")
		observing <- err
	}()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	wantErr(t, hold.Err(), backend.ErrReleased)
	_, err := mine.Wait()
	wantErr(t, err, backend.ErrClosed)
	wantErr(t, <-observing, backend.ErrClosed)
	if err := hold.Release(testContext(t)); err != nil {
		t.Errorf("Release after Close: %v", err)
	}
	release(t, w.Must())
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	nothingRuns(t, before)
	keys, err := c.Ctl("get", "--prefix", "", "--keys-only")
	if err != nil || keys != "" {
		t.Errorf("keys left: %q, %v", keys, err)
	}
	if _, err := b.Acquire(testContext(t), p, exclusive); err == nil {
		t.Error("Acquire on a closed backend")
	} else {
		wantErr(t, err, backend.ErrClosed)
	}
}

func TestRegister(t *testing.T) {
	c := testenv.SharedEtcd(t)
	b, other := open(t, hosts(c), ""), open(t, hosts(c), "")
	p := newPlace(backend.Latch)
	ctx := testContext(t)
	v, err := b.Load(ctx, p, "")
	if err != nil || v.Data != nil || v.Version == "" {
		t.Fatalf("Load of nothing: %+v, %v", v, err)
	}
	v1, err := b.Store(ctx, p, []byte("one"), v.Version)
	if err != nil {
		t.Fatal(err)
	}
	_, err = other.Store(ctx, p, []byte("uno"), v.Version)
	wantErr(t, err, backend.ErrConflict)
	next := make(chan backend.Value, 1)
	go func() {
		v, err := other.Load(ctx, p, v1)
		if err != nil {
			t.Error(err)
		}
		next <- v
	}()
	time.Sleep(20 * time.Millisecond)
	v2, err := b.Store(ctx, p, []byte{}, v1)
	if err != nil {
		t.Fatal(err)
	}
	if got := <-next; got.Version != v2 || got.Data == nil || len(got.Data) != 0 {
		t.Fatalf("Load: %+v, want an empty register at %s", got, v2)
	}
	v3, err := b.Store(ctx, p, nil, v2)
	if err != nil || v3 != v.Version {
		t.Fatalf("removed: version %s, %v", v3, err)
	}
	hold := acquire(t, b, p, presence)
	if _, err = other.Store(ctx, p, []byte("x"), v3, hold.ID()); err != nil {
		t.Fatal(err)
	}
	v4, _ := b.Load(ctx, p, "")
	wantErr(t, hold.Withdraw(ctx, v3), backend.ErrConflict)
	if hold.Err() != nil {
		t.Fatal("a conflict ended the lease")
	}
	if err := hold.Withdraw(ctx, v4.Version); err != nil {
		t.Fatal(err)
	}
	wantErr(t, hold.Err(), backend.ErrReleased)
	_, err = other.Store(ctx, p, []byte("y"), v4.Version, hold.ID())
	wantErr(t, err, backend.ErrConflict)
	if _, err := b.Store(ctx, p, nil, v4.Version); err != nil {
		t.Fatal(err)
	}
}

func TestLargeStore(t *testing.T) {
	c := testenv.SharedEtcd(t)
	b, other := open(t, hosts(c), ""), open(t, hosts(c), "")
	p := newPlace(backend.Barrier)
	ctx := testContext(t)
	const n = 1000
	leases, ids := make([]backend.Lease, n), make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			l, err := []backend.Backend{b, other}[i%2].Acquire(ctx, p, presence)
			if err != nil {
				t.Error(err)
				return
			}
			leases[i], ids[i] = l, l.ID()
		})
	}
	wg.Wait()
	v, err := b.Load(ctx, p, "")
	if err != nil {
		t.Fatal(err)
	}
	v1, err := b.Store(ctx, p, []byte("all"), v.Version, ids...)
	if err != nil {
		t.Fatal(err)
	}
	wantErr(t, leases[7].Withdraw(ctx, v.Version), backend.ErrConflict)
	// Storing and withdrawing exclude each other.
	for round := range 30 {
		var stored, withdrawn error
		var v2 backend.Version
		var wg sync.WaitGroup
		wg.Go(func() { v2, stored = other.Store(ctx, p, []byte(fmt.Sprint(round)), v1, ids...) })
		wg.Go(func() { withdrawn = leases[round].Withdraw(ctx, v1) })
		wg.Wait()
		if (stored == nil) == (withdrawn == nil) {
			t.Fatalf("round %d: store %v, withdraw %v: want one of them", round, stored, withdrawn)
		}
		if stored == nil {
			v1 = v2
			release(t, leases[round])
		}
		ids[round] = ids[n-1]
	}
	var left sync.WaitGroup
	for _, l := range leases[30:] {
		left.Go(func() { _ = l.Release(ctx) })
	}
	left.Wait()
	if _, err := b.Store(ctx, p, nil, v1); err != nil {
		t.Fatal(err)
	}
	roster(t, b, p, 0)
	keys, err := c.Ctl("get", "--prefix", "/test/closing/", "--keys-only")
	if err != nil || keys != "" {
		t.Errorf("markers left: %q, %v", keys, err)
	}
}

func TestGone(t *testing.T) {
	c := testenv.SharedEtcd(t)
	b, other := open(t, hosts(c), ""), open(t, hosts(c), "")
	p := newPlace(backend.Group)
	ctx := testContext(t)
	if err := b.Gone(ctx, p, "12-34"); err != nil {
		t.Fatal(err)
	}
	l := acquire(t, b, p, presence)
	gone := make(chan error, 1)
	go func() { gone <- other.Gone(ctx, p, l.ID()) }()
	select {
	case err := <-gone:
		t.Fatalf("Gone of an entry in line: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	release(t, l)
	if err := <-gone; err != nil {
		t.Fatal(err)
	}
}
