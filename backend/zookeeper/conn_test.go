package zookeeper_test

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/backend/zookeeper"
	"github.com/gocoord/coord/internal/testenv"
)

// A connection of the caller's is left open, and without entries.
func TestNew(t *testing.T) {
	z := testenv.SharedZooKeeper(t, 1)
	d := zookeeper.NewDialer(nil)
	conn, _, err := zk.Connect(z.Endpoints(), 4*time.Second, zk.WithDialer(d.Dial), zk.WithLogger(silent{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	b, err := zookeeper.New(testContext(t), conn, d, zookeeper.WithBase("/test"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := b.Info().Expiry, 6*time.Second; got != want {
		t.Errorf("Expiry %v, want %v", got, want)
	}
	other := open(t, hosts(z), "")
	p := newPlace(backend.Mutex)
	l := acquire(t, b, p, exclusive)
	wait := goAcquire(t, b, p, exclusive)
	next := goAcquire(t, other, p, exclusive)
	roster(t, other, p, 3)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	wantErr(t, l.Err(), backend.ErrReleased)
	_, err = wait.Wait()
	wantErr(t, err, backend.ErrClosed)
	release(t, next.Must())
	roster(t, other, p, 0)
	if _, _, err := conn.Exists("/"); err != nil {
		t.Errorf("the caller's connection after Close: %v", err)
	}
	for _, opts := range [][]zookeeper.Option{
		{zookeeper.WithBase("/zookeeper/x")}, {zookeeper.WithLayout("other")},
	} {
		_, err := zookeeper.New(testContext(t), conn, d, opts...)
		wantErr(t, err, backend.ErrInvalid)
	}
}

// tlsFront speaks TLS in front of a server that does not.
func tlsFront(t *testing.T, target string) (addr, ca string) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	config := s.TLS.Clone()
	config.NextProtos = nil
	cert := s.Certificate().Raw
	s.Close()
	ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", target)
			if err != nil {
				_ = in.Close()
				continue
			}
			pass := func(to, from net.Conn) {
				_, _ = io.Copy(to, from)
				_ = to.Close()
				_ = from.Close()
			}
			all.Go(func() { pass(out, in) })
			all.Go(func() { pass(in, out) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return l.Addr().String(), ca
}

func TestTLS(t *testing.T) {
	z := testenv.SharedZooKeeper(t, 1)
	addr, ca := tlsFront(t, z.Endpoints()[0])
	b, err := tryOpen(testContext(t), "zks://"+addr+"/test?ca="+ca)
	if err != nil {
		t.Fatal(err)
	}
	release(t, acquire(t, b, newPlace(backend.Mutex), exclusive))
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"?dial_timeout=1s", "?dial_timeout=1s&server_name=elsewhere&ca=" + ca} {
		_, err := tryOpen(testContext(t), "zks://"+addr+"/test"+query)
		wantErr(t, err, backend.ErrUnavailable)
	}
	_, err = tryOpen(testContext(t), "zks://"+addr+"/test?ca=/nowhere.pem")
	wantErr(t, err, backend.ErrInvalid)
}

// Clients who list the servers differently share places all the same, and those
// of another base path do not.
func TestService(t *testing.T) {
	z := testenv.SharedZooKeeper(t, 1)
	other := testenv.NewProxy(t, "tcp", z.Endpoints()[0])
	one := open(t, hosts(z)+","+other.Addr(), "").Info().Service
	if two := open(t, other.Addr()+","+hosts(z), "").Info().Service; two != one {
		t.Errorf("the service is %q for one client and %q for another", one, two)
	}
	b, err := tryOpen(testContext(t), "zk://"+hosts(z)+","+other.Addr()+"/elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	if elsewhere := b.Info().Service; elsewhere == one {
		t.Errorf("the service is %q for two base paths", one)
	}
}

// One dead host among several costs a moment, and none alive an error in time.
func TestDeadHosts(t *testing.T) {
	z := testenv.SharedZooKeeper(t, 1)
	dead := testenv.NewProxy(t, "tcp", z.Endpoints()[0])
	dead.Cut()
	for range 4 { // the order is drawn by lot
		b := open(t, dead.Addr()+","+hosts(z), "")
		release(t, acquire(t, b, newPlace(backend.Mutex), exclusive))
	}
	start := time.Now()
	_, err := tryOpen(testContext(t), "zk://"+dead.Addr()+"/test?dial_timeout=500ms")
	wantErr(t, err, backend.ErrUnavailable)
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("opening gave up after %v, want 500ms and what ending the client takes", took)
	}
}
