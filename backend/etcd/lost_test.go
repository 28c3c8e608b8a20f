package etcd_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/testenv"
)

// The request is carried out and its answer is lost: there is one entry, and
// nothing stays of it.
func TestLostAnswerToAcquire(t *testing.T) {
	c := testenv.SharedEtcd(t)
	proxy := testenv.NewProxy(t, "tcp", c.Endpoints()[0])
	b, other := open(t, proxy.Addr(), "?ttl=5s"), open(t, hosts(c), "")
	for _, claim := range []backend.Claim{exclusive, noWait, shared, presence} {
		p := newPlace(backend.Mutex)
		cut := proxy.CutAfterRequest(func(sent []byte) bool { return bytes.Contains(sent, []byte(p.Name)) })
		start := time.Now()
		acquiring := goAcquire(t, b, p, claim)
		<-cut
		time.Sleep(100 * time.Millisecond)
		proxy.Heal()
		l := acquiring.Must()
		if d := time.Since(start); d > 3*time.Second {
			t.Errorf("%s: granted after %v", claim.Mode, d)
		}
		r := roster(t, other, p, 1)
		if r.Entries[0].ID != l.ID() || r.Entries[0].Token != l.Token() {
			t.Errorf("%s: entry %+v, lease %s token %d", claim.Mode, r.Entries[0], l.ID(), l.Token())
		}
		waiter := goAcquire(t, other, p, exclusive)
		roster(t, other, p, 2)
		release(t, l)
		release(t, waiter.Must())
		roster(t, other, p, 0)
	}
}

func TestCancelWhileTheAnswerIsLost(t *testing.T) {
	c := testenv.SharedEtcd(t)
	proxy := testenv.NewProxy(t, "tcp", c.Endpoints()[0])
	b, other := open(t, proxy.Addr(), "?ttl=10s"), open(t, hosts(c), "")
	p := newPlace(backend.Mutex)
	proxy.MuteReplies()
	a := goAcquire(t, b, p, exclusive)
	roster(t, other, p, 1)
	a.Cancel()
	_, err := a.Wait()
	wantErr(t, err, context.Canceled)
	proxy.HealDropping()
	roster(t, other, p, 0)
	release(t, acquire(t, other, p, exclusive))
}

func TestLostAnswerToRelease(t *testing.T) {
	c := testenv.SharedEtcd(t)
	proxy := testenv.NewProxy(t, "tcp", c.Endpoints()[0])
	b, other := open(t, proxy.Addr(), "?ttl=10s"), open(t, hosts(c), "")
	p := newPlace(backend.Barrier)
	l := acquire(t, b, p, presence)
	cut := proxy.CutAfterRequest(func(sent []byte) bool { return bytes.Contains(sent, []byte(p.Name)) })
	done := make(chan error, 1)
	go func() { done <- l.Release(testContext(t)) }()
	<-cut
	proxy.Heal()
	if err := <-done; err != nil {
		t.Errorf("Release: %v", err)
	}
	roster(t, other, p, 0)

	l = acquire(t, b, p, presence)
	proxy.MuteReplies()
	ctx, cancel := context.WithCancel(context.Background())
	go func() { done <- l.Withdraw(ctx, "0") }()
	roster(t, other, p, 0)
	cancel()
	wantErr(t, <-done, context.Canceled)
	if _, err := other.Store(testContext(t), p, []byte("moved on"), "0"); err != nil {
		t.Fatal(err)
	}
	proxy.HealDropping()
	if err := l.Withdraw(testContext(t), "0"); err != nil {
		t.Errorf("repeated Withdraw: %v", err)
	}
	wantErr(t, l.Err(), backend.ErrReleased)
}

func TestLostAnswerToStore(t *testing.T) {
	c := testenv.SharedEtcd(t)
	proxy := testenv.NewProxy(t, "tcp", c.Endpoints()[0])
	b, other := open(t, proxy.Addr(), "?ttl=10s"), open(t, hosts(c), "")
	ctx := testContext(t)
	p := newPlace(backend.Latch)
	prev := backend.Version("0")
	for round := range 4 {
		data := []byte(fmt.Sprint("round", round))
		proxy.MuteReplies()
		cancelled, cancel := context.WithCancel(ctx)
		type result struct {
			v   backend.Version
			err error
		}
		done := make(chan result, 1)
		go func() {
			v, err := b.Store(cancelled, p, data, prev)
			done <- result{v, err}
		}()
		made, err := other.Load(ctx, p, prev)
		if err != nil || !bytes.Equal(made.Data, data) {
			t.Fatalf("Load: %+v, %v", made, err)
		}
		next := made.Version
		if round >= 2 { // others store on top of it
			if next, err = other.Store(ctx, p, []byte("on top"), next); err != nil {
				t.Fatal(err)
			}
		}
		got := result{}
		if round%2 == 0 { // it repeats by itself
			proxy.HealDropping()
			got = <-done
		} else { // the caller repeats
			cancel()
			wantErr(t, (<-done).err, context.Canceled)
			proxy.HealDropping()
			got.v, got.err = b.Store(ctx, p, data, prev)
		}
		if got.err != nil || got.v != made.Version {
			t.Errorf("round %d: Store made %q, %v; want %q", round, got.v, got.err, made.Version)
		}
		// Somebody who wants the same thing again is in conflict.
		_, err = b.Store(ctx, p, data, prev)
		wantErr(t, err, backend.ErrConflict)
		prev = next
		cancel()
	}
}

// The request is carried out, its answer is lost, and the caller gives up: it is
// carried through, so that nobody waits for a reader as for a writer.
func TestLostAnswerToDowngrade(t *testing.T) {
	c := testenv.SharedEtcd(t)
	proxy := testenv.NewProxy(t, "tcp", c.Endpoints()[0])
	b, other := open(t, proxy.Addr(), "?ttl=10s"), open(t, hosts(c), "")
	p := newPlace(backend.RWMutex)
	w := acquire(t, b, p, exclusive)
	local := goAcquire(t, b, p, shared)
	roster(t, other, p, 2)
	foreign := goAcquire(t, other, p, shared)
	roster(t, other, p, 3)
	proxy.MuteReplies()
	ctx, cancel := context.WithCancel(testContext(t))
	done := make(chan error, 1)
	go func() { done <- w.Downgrade(ctx) }()
	foreign.Must() // so it was carried out
	cancel()
	wantErr(t, <-done, context.Canceled)
	proxy.HealDropping()
	local.Must()
	if err := w.Err(); err != nil {
		t.Error(err)
	}
	release(t, w)
}

// Where the answer comes a moment after the caller has given up, nothing stays:
// no entry, and no key against one that may still come.
func TestCancelBeforeTheAnswer(t *testing.T) {
	c := testenv.SharedEtcd(t)
	proxy := testenv.NewProxy(t, "tcp", c.Endpoints()[0])
	b, other, client := open(t, proxy.Addr(), "?ttl=10s"), open(t, hosts(c), ""), raw(t, c)
	proxy.Delay(30 * time.Millisecond)
	const tries = 10
	for n := 0; n < tries; {
		p := newPlace(backend.Mutex)
		a := goAcquire(t, b, p, exclusive)
		roster(t, other, p, 1) // and the answer is on its way
		a.Cancel()
		l, err := a.Wait()
		if err == nil { // the answer was faster
			release(t, l)
			continue
		}
		wantErr(t, err, context.Canceled)
		roster(t, b, p, 0)
		n++
	}
	r, err := client.Get(testContext(t), "/test/withdrawn/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if r.Count == tries {
		t.Errorf("each of %d calls left a key behind that keeps a late entry out", tries)
	}
}
