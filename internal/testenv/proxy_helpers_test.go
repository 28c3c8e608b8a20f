package testenv

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// echo is a server that sends back what it gets and remembers it.
type echo struct {
	network, addr string

	mu   sync.Mutex
	got  bytes.Buffer
	news chan struct{} // holds a signal after got has grown
}

func startEcho(t *testing.T, network string) *echo {
	t.Helper()
	addr := "127.0.0.1:0"
	if network == "unix" {
		dir, err := os.MkdirTemp("", "echo") //nolint:usetesting // the path of a socket has to be short
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		addr = filepath.Join(dir, "s")
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), network, addr)
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{network: network, addr: l.Addr().String(), news: make(chan struct{}, 1)}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { e.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return e
}

func (e *echo) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := conn.Read(buf)
		e.mu.Lock()
		e.got.Write(buf[:n])
		e.mu.Unlock()
		signal(e.news)
		if err != nil {
			return
		}
		if _, err := conn.Write(buf[:n]); err != nil {
			return
		}
	}
}

// awaitGot waits until the server has got the text.
func (e *echo) awaitGot(t *testing.T, text string) {
	t.Helper()
	timeout := time.After(10 * time.Second)
	for {
		e.mu.Lock()
		got := e.got.String()
		e.mu.Unlock()
		if strings.Contains(got, text) {
			return
		}
		select {
		case <-e.news:
		case <-timeout:
			t.Fatalf("the server got %q, want %q", got, text)
		}
	}
}

// client is a connection with the calls that the tests make.
type client struct {
	t *testing.T
	net.Conn
}

func connect(t *testing.T, p *Proxy) (net.Conn, error) {
	t.Helper()
	return (&net.Dialer{}).DialContext(t.Context(), p.network, p.Addr())
}

func dial(t *testing.T, p *Proxy) *client {
	t.Helper()
	conn, err := connect(t, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &client{t, conn}
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) receive(text string) {
	c.t.Helper()
	c.within(10 * time.Second)
	got := make([]byte, len(text))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != text {
		c.t.Fatalf("received %q, %v, want %q", got[:n], err, text)
	}
}

// silent checks that nothing arrives. Nothing is no event, so it is waited for
// a short time; the proxy's counts tell for certain.
func (c *client) silent() {
	c.t.Helper()
	c.within(20 * time.Millisecond)
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("received %d bytes, %v, want silence", n, err)
	}
}

// lost checks that the connection was broken without another byte.
func (c *client) lost() {
	c.t.Helper()
	c.within(10 * time.Second)
	n, err := c.Read(make([]byte, 1))
	if n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("received %d bytes, %v, want a lost connection", n, err)
	}
}

func (c *client) within(d time.Duration) {
	c.t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(d)); err != nil {
		c.t.Fatal(err)
	}
}

// onBoth runs a test with an echo server behind a proxy on TCP and on a Unix
// socket and checks that the proxy leaves no goroutine.
func onBoth(t *testing.T, f func(t *testing.T, e *echo, p *Proxy)) {
	t.Helper()
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			if network == "unix" && runtime.GOOS == "windows" {
				t.Skip("the proxy is used with Unix sockets on Unix only")
			}
			e := startEcho(t, network)
			p := NewProxy(t, e.network, e.addr)
			f(t, e, p)
			p.Close()
			if s := p.Stats(); s.Open != 0 || s.WithheldRequestBytes != 0 || s.WithheldReplyBytes != 0 {
				t.Errorf("closed, but %+v", s)
			}
			awaitNoProxyGoroutine(t)
		})
	}
}

func awaitNoProxyGoroutine(t *testing.T) {
	t.Helper()
	buf := make([]byte, 1<<20)
	for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		stacks := string(buf[:runtime.Stack(buf, true)])
		left := false
		for _, of := range []string{"(*pair)", "(*pipe)", "(*Proxy).accept"} {
			left = left || strings.Contains(stacks, "testenv."+of)
		}
		if !left {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the proxy left goroutines:\n%s", stacks)
		}
	}
}
