package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/testenv"
)

// A holder that is cut off hears of it before another is admitted.
func TestLossIsToldFirst(t *testing.T) {
	c := testenv.SharedEtcd(t)
	for _, how := range []string{"mute", "mute replies", "cut"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			proxy := testenv.NewProxy(t, "tcp", c.Endpoints()[0])
			b, other := open(t, proxy.Addr(), "?ttl=2s"), open(t, hosts(c), "")
			p := newPlace(backend.Mutex)
			l := acquire(t, b, p, exclusive)
			w := goAcquire(t, other, p, exclusive)
			mine := goAcquire(t, b, p, exclusive)
			roster(t, other, p, 3)
			switch how {
			case "mute":
				proxy.Mute()
			case "mute replies":
				proxy.MuteReplies()
			case "cut":
				proxy.Cut()
			}
			if how != "mute replies" { // which keeps the lease alive until then
				select {
				case <-w.Done:
					t.Fatal("another was admitted before the loss was told")
				case <-l.Done():
				}
			} else {
				ended(t, l, 5*time.Second)
			}
			wantErr(t, l.Err(), backend.ErrLost)
			wantErr(t, l.Release(testContext(t)), backend.ErrLost)
			if d, ok := l.Deadline(); !ok || time.Until(d) > 0 {
				t.Errorf("deadline in %v, %v", time.Until(d), ok)
			}
			_, err := mine.Wait()
			wantErr(t, err, backend.ErrUnavailable)
			next := w.Must()
			proxy.Heal()
			again := goAcquire(t, b, p, exclusive)
			roster(t, other, p, 2)
			again.Waiting(10 * time.Millisecond)
			release(t, next)
			release(t, again.Must())
		})
	}
}

func TestRevokedFromOutside(t *testing.T) {
	c := testenv.SharedEtcd(t)
	b, other := open(t, hosts(c), "?ttl=6s"), open(t, hosts(c), "")
	p := newPlace(backend.Mutex)
	hold := acquire(t, b, p, exclusive)
	front := newPlace(backend.Mutex)
	first := acquire(t, other, front, exclusive)
	queued := goAcquire(t, b, front, exclusive)
	roster(t, other, front, 2)
	revoke := func(l backend.Lease) {
		lease, _, _ := strings.Cut(l.ID(), "-")
		if out, err := c.Ctl("lease", "revoke", lease); err != nil {
			t.Fatal(out, err)
		}
	}
	revoke(hold)
	release(t, first)
	if _, err := queued.Wait(); !errors.Is(err, backend.ErrLost) {
		t.Errorf("a queued claim whose session was revoked: %v", err)
	}
	next := acquire(t, other, p, exclusive)
	wantErr(t, hold.Release(testContext(t)), backend.ErrLost)
	again := goAcquire(t, b, p, exclusive)
	roster(t, other, p, 2)
	again.Waiting(10 * time.Millisecond)
	release(t, next)
	held := again.Must()
	revoke(held)
	ended(t, held, 4*time.Second)
	wantErr(t, held.Err(), backend.ErrLost)
}

// A session that is gone without our knowing costs the next Acquire nothing.
func TestAcquireAfterRevocation(t *testing.T) {
	c := testenv.SharedEtcd(t)
	b := open(t, hosts(c), "?ttl=60s")
	client := raw(t, c)
	p := newPlace(backend.Mutex)
	for i := range 20 {
		claim := []backend.Claim{exclusive, noWait, presence}[i%3]
		l := acquire(t, b, p, claim)
		lease, err := strconv.ParseInt(strings.Split(l.ID(), "-")[0], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Revoke(testContext(t), clientv3.LeaseID(lease)); err != nil {
			t.Fatal(err)
		}
		next := acquire(t, b, p, claim)
		wantErr(t, l.Err(), backend.ErrLost)
		release(t, next)
	}
}

func TestCompactionWhileWaiting(t *testing.T) {
	c := testenv.Etcd(t)
	proxy := testenv.NewProxy(t, "tcp", c.Endpoints()[0])
	b, other := open(t, proxy.Addr(), "?ttl=15s"), open(t, hosts(c), "")
	client := raw(t, c)
	ctx := testContext(t)
	p := newPlace(backend.Mutex)
	hold := acquire(t, other, p, exclusive)
	w := goAcquire(t, b, p, exclusive)
	roster(t, other, p, 2)
	w.Waiting(50 * time.Millisecond)
	proxy.Cut()
	var rev int64
	for range 500 {
		r, err := client.Put(ctx, "/elsewhere", "x")
		if err != nil {
			t.Fatal(err)
		}
		rev = r.Header.Revision
	}
	if _, err := client.Compact(ctx, rev, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	proxy.Heal()
	w.Waiting(1500 * time.Millisecond)
	start := time.Now()
	release(t, hold)
	release(t, w.Must())
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("granted %v after the release", d)
	}
}

func TestBlip(t *testing.T) {
	c := testenv.Etcd(t)
	proxy := testenv.NewProxy(t, "tcp", c.Endpoints()[0])
	b, other := open(t, proxy.Addr(), "?ttl=10s"), open(t, hosts(c), "")
	p := newPlace(backend.Mutex)
	hold := acquire(t, b, p, exclusive)
	w := goAcquire(t, other, p, exclusive)
	roster(t, other, p, 2)
	for range 3 {
		proxy.Cut()
		time.Sleep(2 * time.Second)
		proxy.Heal()
		time.Sleep(time.Second)
	}
	c.Kill(0)
	time.Sleep(2 * time.Second)
	c.Restart(0)
	w.Waiting(time.Second)
	if err := hold.Err(); err != nil {
		t.Fatal(err)
	}
	release(t, hold)
	release(t, w.Must())
}

func TestDeadHosts(t *testing.T) {
	c := testenv.SharedEtcd(t)
	closed := testenv.NewProxy(t, "tcp", c.Endpoints()[0])
	closed.Cut()
	hole := testenv.NewProxy(t, "tcp", c.Endpoints()[0])
	hole.Mute()
	live := c.Endpoints()[0]
	for _, dead := range []string{closed.Addr(), hole.Addr(), "name.invalid"} {
		for _, list := range []string{dead + "," + live, live + "," + dead} {
			t.Run(strings.ReplaceAll(list, live, "live"), func(t *testing.T) {
				t.Parallel()
				start := time.Now()
				b := open(t, list, "")
				p := newPlace(backend.Mutex)
				for range 4 {
					release(t, acquire(t, b, p, exclusive))
				}
				if d := time.Since(start); d > 5*time.Second {
					t.Errorf("took %v", d)
				}
			})
		}
	}
	t.Run("all", func(t *testing.T) {
		start := time.Now()
		_, err := tryOpen(testContext(t), "etcd://u5er:S3cr3t@"+closed.Addr()+","+hole.Addr()+"/x?dial_timeout=1s")
		wantErr(t, err, backend.ErrUnavailable)
		t.Log(err)
		if s := err.Error(); !strings.Contains(s, closed.Addr()) || !strings.Contains(s, hole.Addr()) || strings.Contains(s, "S3cr") {
			t.Errorf("error %q", s)
		}
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("took %v", d)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		_, err = tryOpen(ctx, "etcd://u5er:S3cr3t@"+hole.Addr())
		wantErr(t, err, context.DeadlineExceeded)
		_, err = tryOpen(testContext(t), "etcd://"+hole.Addr()+"?dial_timeout=500ms")
		wantErr(t, err, backend.ErrUnavailable)
	})
}

func TestDeadlineInABlackHole(t *testing.T) {
	c := testenv.SharedEtcd(t)
	proxy := testenv.NewProxy(t, "tcp", c.Endpoints()[0])
	b, other := open(t, proxy.Addr(), "?ttl=10s"), open(t, hosts(c), "")
	p := newPlace(backend.Mutex)
	hold := acquire(t, other, p, exclusive)
	ctx, cancel := context.WithTimeout(context.Background(), 700*time.Millisecond)
	defer cancel()
	start := time.Now()
	queued := make(chan error, 1)
	go func() {
		_, err := b.Acquire(ctx, p, exclusive)
		queued <- err
	}()
	roster(t, other, p, 2)
	proxy.Mute()
	_, err := b.Acquire(ctx, newPlace(backend.Mutex), exclusive)
	wantErr(t, err, context.DeadlineExceeded)
	wantErr(t, <-queued, context.DeadlineExceeded)
	if d := time.Since(start); d > 1200*time.Millisecond {
		t.Errorf("took %v", d)
	}
	proxy.Heal()
	roster(t, other, p, 1)
	release(t, hold)
}

func TestCloseInABlackHole(t *testing.T) {
	c := testenv.SharedEtcd(t)
	before := goleak.IgnoreCurrent()
	proxy := testenv.NewProxy(t, "tcp", c.Endpoints()[0])
	b := open(t, proxy.Addr(), "?ttl=10s")
	p := newPlace(backend.Mutex)
	l := acquire(t, b, p, exclusive)
	w := goAcquire(t, b, p, exclusive)
	w.Waiting(20 * time.Millisecond)
	observing := make(chan error, 1)
	go func() {
		_, err := b.Observe(context.Background(), newPlace(backend.Mutex), "0.0")
		observing <- err
	}()
	time.Sleep(50 * time.Millisecond)
	proxy.Mute()
	releasing := make(chan error, 1)
	go func() { releasing <- l.Release(context.Background()) }()
	<-l.Done()
	start := time.Now()
	err := b.Close()
	if d := time.Since(start); d > 3*time.Second {
		t.Errorf("Close took %v", d)
	}
	wantErr(t, err, backend.ErrUnavailable)
	t.Log(err)
	wantErr(t, <-observing, backend.ErrClosed)
	wantErr(t, <-releasing, backend.ErrClosed)
	_, err = w.Wait()
	wantErr(t, err, backend.ErrClosed)
	proxy.Close()
	nothingRuns(t, before)
}

// A service that is away for longer than Expiry ends calls that have no deadline.
func TestUnavailable(t *testing.T) {
	c := testenv.SharedEtcd(t)
	proxy := testenv.NewProxy(t, "tcp", c.Endpoints()[0])
	b := open(t, proxy.Addr(), "?ttl=2s")
	p := newPlace(backend.Latch)
	l := acquire(t, b, p, presence)
	calls := map[string]func(context.Context) error{
		"Acquire": func(ctx context.Context) error { _, err := b.Acquire(ctx, p, presence); return err },
		"Load":    func(ctx context.Context) error { _, err := b.Load(ctx, p, "0"); return err },
		"Observe": func(ctx context.Context) error {
			r, _ := b.Observe(ctx, p, "")
			_, err := b.Observe(ctx, p, r.Version)
			return err
		},
		"Gone":  func(ctx context.Context) error { return b.Gone(ctx, p, l.ID()) },
		"Store": func(ctx context.Context) error { _, err := b.Store(ctx, p, []byte("x"), "0"); return err },
	}
	var wg sync.WaitGroup
	run := func(name string, call func(context.Context) error) {
		wg.Go(func() {
			start := time.Now()
			err := call(context.Background())
			if !errors.Is(err, backend.ErrUnavailable) {
				t.Errorf("%s: %v", name, err)
			}
			if errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v looks like a deadline of the caller's", name, err)
			}
			if d := time.Since(start); d > b.Info().Expiry*2 {
				t.Errorf("%s: took %v, Expiry is %v", name, d, b.Info().Expiry)
			}
		})
	}
	for _, waiting := range []string{"Load", "Observe", "Gone"} {
		run("waiting "+waiting, calls[waiting])
	}
	time.Sleep(200 * time.Millisecond)
	proxy.Mute()
	for name, call := range calls {
		run(name, call)
	}
	wg.Wait()
}

func TestNoSpace(t *testing.T) {
	c := testenv.Etcd(t, testenv.ExtraArgs("--quota-backend-bytes=300000"))
	b := open(t, hosts(c), "")
	p := newPlace(backend.Mutex)
	hold := acquire(t, b, p, exclusive)
	client := raw(t, c)
	for i := 0; ; i++ {
		if _, err := client.Put(testContext(t), fmt.Sprint("/fill/", i), strings.Repeat("x", 50000)); err != nil {
			break
		}
	}
	for _, claim := range []backend.Claim{exclusive, noWait} {
		_, err := b.Acquire(testContext(t), newPlace(backend.Mutex), claim)
		wantErr(t, err, backend.ErrUnavailable)
		if !strings.Contains(err.Error(), "alarm disarm") {
			t.Errorf("error %q gives no advice", err)
		}
	}
	release(t, hold)
	keys, err := c.Ctl("get", "--prefix", "/test/", "--keys-only")
	if err != nil || keys != "" {
		t.Errorf("keys left: %q, %v", keys, err)
	}
}

func TestAuthTokenExpires(t *testing.T) {
	c := testenv.Etcd(t, testenv.Auth("alice", "p#%@/:x", 1))
	url := "etcd://alice:p%23%25%40%2F%3Ax@" + hosts(c) + "/test?ttl=3s"
	b, err := tryOpen(testContext(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	p := newPlace(backend.Mutex)
	for range 3 {
		hold := acquire(t, b, p, exclusive)
		other, err := tryOpen(testContext(t), url)
		if err != nil {
			t.Fatal(err)
		}
		w := goAcquire(t, other, p, exclusive)
		roster(t, b, p, 2)
		w.Waiting(4 * time.Second)
		if err := hold.Err(); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		release(t, hold)
		release(t, w.Must())
		if d := time.Since(start); d > 500*time.Millisecond {
			t.Errorf("handed over after %v", d)
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, wrong := range []string{"etcd://alice:wrong@", "etcd://"} {
		_, err := tryOpen(testContext(t), wrong+hosts(c)+"/test")
		if err == nil || errors.Is(err, backend.ErrUnavailable) || strings.Contains(err.Error(), "wrong") {
			t.Errorf("%s: %v", wrong, err)
		}
		t.Log(err)
	}
}

func TestTLS(t *testing.T) {
	c := testenv.Etcd(t, testenv.TLS())
	f := c.TLSFiles()
	b, err := tryOpen(testContext(t), fmt.Sprintf("etcds://%s/test?ca=%s&cert=%s&key=%s", hosts(c), f.CA, f.ClientCert, f.ClientKey))
	if err != nil {
		t.Fatal(err)
	}
	release(t, acquire(t, b, newPlace(backend.Mutex), exclusive))
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	_, err = tryOpen(testContext(t), fmt.Sprintf("etcds://%s/test?dial_timeout=1s", hosts(c)))
	wantErr(t, err, backend.ErrUnavailable)
	t.Log(err)
}

func TestRenewals(t *testing.T) {
	c := testenv.Etcd(t)
	b := open(t, hosts(c), "?ttl=3s")
	var leases []backend.Lease
	for range 100 {
		leases = append(leases, acquire(t, b, newPlace(backend.Mutex), exclusive))
	}
	got := c.RequestsDuring(t, func() { time.Sleep(6 * time.Second) })
	if n := got["LeaseKeepAlive"]; n < 5 || n > 8 || len(got) != 1 {
		t.Errorf("requests of 100 locks in two ttls: %v, want about 6 LeaseKeepAlive", got)
	}
	for _, l := range leases {
		if err := l.Err(); err != nil {
			t.Fatal(err)
		}
	}
}
