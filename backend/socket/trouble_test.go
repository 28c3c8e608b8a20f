//go:build linux || darwin

package socket

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gocoord/coord/backend"
)

// pair is a client of this process's that serves, and one that does not.
func pair(t *testing.T) (path string, server, client *Backend) {
	path = socketPath(t)
	server = serving(t, path)
	return path, server, opened(t, path)
}

// serving opens the first client of a path, which serves by the time that it
// is open.
func serving(t testing.TB, path string) *Backend {
	t.Helper()
	b := opened(t, path)
	if b.server.Load() == nil {
		t.Fatal("the first client does not serve")
	}
	return b
}

func acquired(t *testing.T, b *Backend, name string) backend.Lease {
	t.Helper()
	l, err := b.Acquire(t.Context(), mutex(name), exclusive)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func told(t *testing.T, who string, l backend.Lease) {
	t.Helper()
	select {
	case <-l.Done():
	case <-time.After(5 * time.Second):
		t.Fatalf("%s was not told", who)
	}
	if !errors.Is(l.Err(), backend.ErrLost) {
		t.Errorf("%s: %v, want ErrLost", who, l.Err())
	}
}

func still(t *testing.T, who string, l backend.Lease) {
	t.Helper()
	if err := l.Err(); err != nil {
		t.Errorf("%s: %v, want nil", who, err)
	}
}

// TestSidecarRemoved: without it another server could arise, so all holders
// are told, and then go on.
func TestSidecarRemoved(t *testing.T) {
	for name, act := range map[string]func(path string) error{
		"removed": func(path string) error { return os.Remove(path) },
		"replaced": func(path string) error {
			return errors.Join(os.WriteFile(path+"2", nil, 0o600), os.Rename(path+"2", path))
		},
		"renamed": func(path string) error { return os.Rename(path, path+"2") },
	} {
		t.Run(name, func(t *testing.T) {
			path, server, client := pair(t)
			a, b := acquired(t, server, "a"), acquired(t, client, "b")
			if err := act(path + ".lock"); err != nil {
				t.Fatal(err)
			}
			told(t, "the server's claim", a)
			told(t, "the client's claim", b)
			again := acquired(t, client, "b")
			if again.Token() <= b.Token() {
				t.Errorf("token %d after %d", again.Token(), b.Token())
			}
			try := exclusive
			try.NoWait = true
			if _, err := server.Acquire(t.Context(), mutex("b"), try); !errors.Is(err, backend.ErrBusy) {
				t.Errorf("the other client: %v, want ErrBusy", err)
			}
		})
	}
}

// TestEverythingRemoved: a newcomer knows nothing of those who were there, so
// they have to be told before it is granted anything.
func TestEverythingRemoved(t *testing.T) {
	for range 20 {
		path, server, client := pair(t)
		a, b := acquired(t, server, "a"), acquired(t, client, "b")
		if err := errors.Join(os.Rename(path+".d", path+".gone"), os.Remove(path), os.Remove(path+".lock"), os.RemoveAll(path+".gone")); err != nil {
			t.Fatal(err)
		}
		late := opened(t, path)
		acquired(t, late, "b")
		select {
		case <-b.Done():
		default:
			t.Error("a newcomer was granted what somebody holds who was not told")
		}
		told(t, "the server's claim", a)
		told(t, "the client's claim", b)
	}
}

func TestMemberFileRemoved(t *testing.T) {
	path, server, client := pair(t)
	a, b := acquired(t, server, "a"), acquired(t, client, "b")
	l := layout{path: path}
	if err := os.Remove(l.member(client.member.id)); err != nil {
		t.Fatal(err)
	}
	told(t, "the client's claim", b)
	still(t, "the server's claim", a)
	acquired(t, client, "b")
}

// TestSocketRemoved: nobody else can serve, so the socket is put back, and
// nobody loses anything.
func TestSocketRemoved(t *testing.T) {
	path, server, client := pair(t)
	a, b := acquired(t, server, "a"), acquired(t, client, "b")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	late := opened(t, path)
	try := exclusive
	try.NoWait = true
	if _, err := late.Acquire(t.Context(), mutex("b"), try); !errors.Is(err, backend.ErrBusy) {
		t.Errorf("a newcomer: %v, want ErrBusy", err)
	}
	still(t, "the server's claim", a)
	still(t, "the client's claim", b)
}

// TestConnectionCut: a connection is not a session.
func TestConnectionCut(t *testing.T) {
	_, server, client := pair(t)
	l := acquired(t, client, "a")
	waiting := make(chan error, 1)
	holder := acquired(t, server, "b")
	go func() {
		l, err := client.Acquire(t.Context(), mutex("b"), exclusive)
		if err == nil {
			err = l.Release(t.Context())
		}
		waiting <- err
	}()
	inLine(t, server, "b", 2)
	for range 20 {
		client.mu.Lock()
		w, _ := client.link.(*wire)
		client.mu.Unlock()
		if w != nil {
			w.conn.Close()
		}
		if _, err := client.Load(t.Context(), mutex("a"), ""); err != nil {
			t.Fatal(err)
		}
	}
	still(t, "the claim", l)
	inLine(t, server, "b", 2)
	if err := holder.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil {
		t.Error(err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	inLine(t, server, "a", 0)
}

// TestRubbish: who sends what is no frame, or nothing, hurts only itself.
func TestRubbish(t *testing.T) {
	path, server, client := pair(t)
	l := acquired(t, client, "a")
	m, err := client.at.join()
	if err != nil {
		t.Fatal(err)
	}
	defer m.leave(client.at)
	hello := (&request{op: opHello, member: m.id}).append(nil)
	wrong := (&request{op: opHello, member: 12345}).append(nil)
	old := (&request{op: opHello, member: m.id}).append(nil)
	old[6] = 99 // the version
	for _, sent := range [][]byte{
		nil, []byte("GET / HTTP/1.1\r\n\r\n"), {0, 0, 0, 0}, {255, 255, 255, 255}, make([]byte, 100000), hello[:7], wrong, old,
		append(hello[:len(hello):len(hello)], "rubbish after a greeting, which is long enough"...),
		append(append(hello[:len(hello):len(hello)], 1, 0, 0, 0), 99),
		append(append(hello[:len(hello):len(hello)], 3, 0, 0, 0), byte(opStore), 1, 255),
	} {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = c.Write(sent)
	}
	still(t, "the claim of a client", l)
	acquired(t, server, "b")
	acquired(t, client, "c")
}

// TestOtherVersion: the error tells which versions meet.
func TestOtherVersion(t *testing.T) {
	path, _, client := pair(t)
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	q := (&request{op: opHello, number: 0, member: client.member.id}).append(nil)
	q[6] = 99
	if _, err := c.Write(q); err != nil {
		t.Fatal(err)
	}
	w, err := newWire(c.(*net.UnixConn))
	if err != nil {
		t.Fatal(err)
	}
	body, err := w.receive(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	r, err := parseReply(body)
	if err != nil || !strings.Contains(r.text, "version 99") {
		t.Errorf("the answer is %q, %v; want one that names version 99", r.text, err)
	}
}

// TestSlowReader: a peer that does not read what it asks for holds nobody up.
func TestSlowReader(t *testing.T) {
	path, server, client := pair(t)
	place := backend.Place{Kind: backend.Latch, Name: "l"}
	if _, err := server.Store(t.Context(), place, make([]byte, 256<<10), "0"); err != nil {
		t.Fatal(err)
	}
	m, err := client.at.join()
	if err != nil {
		t.Fatal(err)
	}
	defer m.leave(client.at)
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	out := (&request{op: opHello, member: m.id}).append(nil)
	for n := range 1000 {
		out = (&request{op: opLoad, number: uint64(n + 1), place: place}).append(out)
	}
	if _, err := c.Write(out); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := acquired(t, client, "a").Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFullBacklog: a server that does not accept is waited for.
func TestFullBacklog(t *testing.T) {
	path := socketPath(t)
	server := helping(t, path)
	server.stop()
	full := false
	for range 5000 {
		c, err := net.Dial("unix", path)
		if errors.Is(err, syscall.EAGAIN) {
			full = true
			break
		}
		if err != nil {
			t.Skipf("the backlog is too long to be filled: %v", err)
		}
		defer c.Close()
	}
	if !full {
		t.Skip("the backlog is too long to be filled")
	}
	late := start(t, path)
	late.silent(100 * time.Millisecond)
	server.signal(syscall.SIGCONT)
	late.hears("open")
}

// TestMuteServer: who waits for a server that is stopped is told which process
// it is; no hold ends by that, and Close is bounded.
func TestMuteServer(t *testing.T) {
	defer func(d time.Duration) { patience = d }(patience)
	patience = 400 * time.Millisecond
	path := socketPath(t)
	server := helping(t, path)
	b := opened(t, path)
	l, other := acquired(t, b, "a"), acquired(t, b, "c")
	server.stop()
	for name, ask := range map[string]func(ctx context.Context) error{
		"Acquire": func(ctx context.Context) error { _, err := b.Acquire(ctx, mutex("b"), exclusive); return err },
		"Observe": func(ctx context.Context) error { _, err := b.Observe(ctx, mutex("b"), ""); return err },
		"Store":   func(ctx context.Context) error { _, err := b.Store(ctx, mutex("b"), nil, "0"); return err },
	} {
		if err := ask(t.Context()); !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "stopped") {
			t.Errorf("%s of a stopped server: %v; want ErrUnavailable", name, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := ask(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s of a stopped server: %v; want DeadlineExceeded", name, err)
		}
		cancel()
	}
	still(t, "the claim", l)
	if _, err := Open(t.Context(), path); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("Open with a stopped server: %v; want ErrUnavailable", err)
	}
	if err := other.Release(t.Context()); !errors.Is(err, backend.ErrUnavailable) || !errors.Is(other.Err(), backend.ErrReleased) {
		t.Errorf("Release with a stopped server: %v, and Err is %v; want ErrUnavailable, and ErrReleased", err, other.Err())
	}
	server.signal(syscall.SIGCONT)
	inLine(t, b, "b", 0) // what was given up is cleaned up
	inLine(t, b, "c", 0)
	still(t, "the claim", l)
	server.stop()
	began := time.Now()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Close took %v", took)
	}
	server.signal(syscall.SIGCONT)
	if token := server.lock("a"); token <= l.Token() {
		t.Errorf("token %d after %d", token, l.Token())
	}
}

// TestJournalDamage: half a record at the end is nobody's, but one that is
// damaged may be somebody's.
func TestJournalDamage(t *testing.T) {
	path := socketPath(t)
	server := serving(t, path)
	client := opened(t, path)
	l := acquired(t, client, "a")
	journal := layout{path: path}.journal()
	whole, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(journal, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(whole[headerSize : headerSize+20]); err != nil {
		t.Fatal(err)
	}
	f.Close()
	server.crash()
	if err := acquired(t, client, "b").Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	still(t, "the claim", l)
	client.crash()

	damaged := append([]byte(nil), whole...)
	damaged[len(damaged)-1] ^= 1
	if err := os.WriteFile(journal, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path); !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), journal) {
		t.Errorf("a damaged journal: %v; want ErrUnavailable with its name", err)
	}
	binary.LittleEndian.PutUint64(damaged[8:], 1<<62)
	copy(damaged[16:], "before the host was started again")
	if err := os.WriteFile(journal, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	b := opened(t, path)
	if token := acquired(t, b, "a").Token(); token < 1<<62 {
		t.Errorf("token %d; want one after all that were reserved", token)
	}
}

// TestServe stays until its ctx ends.
func TestServe(t *testing.T) {
	path := socketPath(t)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, path) }()
	serverOf(t, path, 0)
	for range 3 {
		b := opened(t, path)
		acquired(t, b, "a")
		if b.server.Load() != nil {
			t.Error("the client serves, beside Serve")
		}
		b.Close()
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v, want nil", err)
	}
	empty(t, path)
}
