package etcd_test

import (
	"context"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/testenv"
)

// Other clients of the same lock wait for us, and we for them.
func TestConcurrencyMutexIsAPeer(t *testing.T) {
	c := testenv.SharedEtcd(t)
	b := open(t, hosts(c), "")
	p := newPlace(backend.Mutex)
	session, err := concurrency.NewSession(raw(t, c))
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	ctx := testContext(t)
	m := concurrency.NewMutex(session, "/test/locks/"+p.Name)
	for range 5 {
		hold := acquire(t, b, p, exclusive)
		locked := make(chan error, 1)
		go func() { locked <- m.Lock(ctx) }()
		roster(t, b, p, 2)
		select {
		case err := <-locked:
			t.Fatalf("concurrency.Mutex did not wait: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
		release(t, hold)
		if err := <-locked; err != nil {
			t.Fatal(err)
		}
		_, err := b.Acquire(ctx, p, noWait)
		wantErr(t, err, backend.ErrBusy)
		w := goAcquire(t, b, p, exclusive)
		roster(t, b, p, 2)
		r := goAcquire(t, b, p, shared)
		entries := roster(t, b, p, 3).Entries
		if !entries[0].Admitted || entries[0].Claim.Mode != backend.Exclusive || entries[1].Admitted {
			t.Errorf("roster %+v", entries)
		}
		gone := make(chan error, 1)
		go func() { gone <- b.Gone(ctx, p, entries[0].ID) }()
		w.Waiting(20 * time.Millisecond)
		if err := m.Unlock(ctx); err != nil {
			t.Fatal(err)
		}
		if err := <-gone; err != nil {
			t.Fatal(err)
		}
		first := w.Must()
		r.Waiting(10 * time.Millisecond)
		release(t, first)
		release(t, r.Must())
	}
}

func TestEtcdctlLockIsAPeer(t *testing.T) {
	c := testenv.SharedEtcd(t)
	b := open(t, hosts(c), "")
	p := newPlace(backend.Mutex)
	hold := acquire(t, b, p, exclusive)
	ctl := c.CtlCmd("lock", "/test/locks/"+p.Name, "sleep", "0.3")
	if err := ctl.Start(); err != nil {
		t.Fatal(err)
	}
	roster(t, b, p, 2)
	release(t, hold)
	start := time.Now()
	release(t, acquire(t, b, p, exclusive))
	if d := time.Since(start); d < 250*time.Millisecond {
		t.Errorf("held after %v beside etcdctl", d)
	}
	if err := ctl.Wait(); err != nil {
		t.Error(err)
	}
}

// Keys that are no claims are ignored, whatever they look like.
func TestStrayKeys(t *testing.T) {
	c := testenv.SharedEtcd(t)
	client := raw(t, c)
	ctx := testContext(t)
	b := open(t, hosts(c), "")
	p := newPlace(backend.RWMutex)
	line := "/test/locks/" + p.Name + "/"
	put := func(key string, opts ...clientv3.OpOption) {
		if _, err := client.Put(ctx, key, "{not ours", opts...); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"", "zzz", "694d-1", "a/b", "\xff"} {
		put(line + key)
	}
	use := func() {
		t.Helper()
		for _, claim := range []backend.Claim{exclusive, shared, noWait, {Mode: backend.Shared, NoWait: true}} {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			l, err := b.Acquire(ctx, p, claim)
			cancel()
			if err != nil {
				t.Fatalf("%+v: %v", claim, err)
			}
			release(t, l)
		}
	}
	use()
	hold := acquire(t, b, p, exclusive)
	put(line + "later")
	_, err := b.Acquire(ctx, p, noWait)
	wantErr(t, err, backend.ErrBusy)
	w := goAcquire(t, b, p, exclusive)
	roster(t, b, p, 2)
	w.Waiting(30 * time.Millisecond)
	release(t, hold)
	release(t, w.Must())
	use()
	// A key with a lease is somebody's claim.
	lease, err := client.Grant(ctx, 60)
	if err != nil {
		t.Fatal(err)
	}
	put(line+"theirs", clientv3.WithLease(lease.ID))
	put(line + "zzzz")
	for _, claim := range []backend.Claim{noWait, {Mode: backend.Shared, NoWait: true}} {
		_, err = b.Acquire(ctx, p, claim)
		wantErr(t, err, backend.ErrBusy)
	}
	w = goAcquire(t, b, p, exclusive)
	if r := roster(t, b, p, 2); !strings.HasPrefix(r.Entries[0].ID, "theirs@") || string(r.Entries[0].Claim.Data) != "{not ours" {
		t.Errorf("roster %+v", r.Entries)
	}
	w.Waiting(30 * time.Millisecond)
	if _, err := client.Revoke(ctx, lease.ID); err != nil {
		t.Fatal(err)
	}
	release(t, w.Must())
}
