package zookeeper_test

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/testenv"
)

// A peer is a client of another make.
type peer interface {
	lock()               // begins to ask for the lock
	held()               // waits until it has it
	waits(time.Duration) // fails if it gets it within that time
	release()
}

// peerProgram is a peer in a process of its own.
type peerProgram struct {
	t     testing.TB
	in    io.WriteCloser
	words chan string
}

func startProgram(t testing.TB, name string, args ...string) *peerProgram {
	t.Helper()
	cmd := exec.Command(name, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaints strings.Builder
	cmd.Stderr = &complaints
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &peerProgram{t: t, in: in, words: make(chan string, 16)}
	go func() {
		defer close(p.words)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.words <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = in.Close()
		timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		for range p.words { // until it has ended
		}
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Logf("%s ended with %v and said: %s", name, err, complaints.String())
		}
	})
	p.expect("ready")
	return p
}

func (p *peerProgram) say(word string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, word+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peerProgram) expect(word string) {
	p.t.Helper()
	select {
	case got := <-p.words:
		if got != word {
			p.t.Fatalf("the peer said %q, want %q", got, word)
		}
	case <-time.After(2 * patience):
		p.t.Fatalf("the peer did not say %q", word)
	}
}

func (p *peerProgram) lock() { p.say("lock"); p.expect("asked") }
func (p *peerProgram) held() { p.t.Helper(); p.expect("held") }
func (p *peerProgram) release() {
	p.say("release")
	p.expect("released")
}

func (p *peerProgram) waits(d time.Duration) {
	p.t.Helper()
	select {
	case got := <-p.words:
		p.t.Fatalf("the peer said %q, want it to wait", got)
	case <-time.After(d):
	}
}

// goPeer is go-zookeeper's Lock.
type goPeer struct {
	t    *testing.T
	l    *zk.Lock
	done chan error
}

func (p *goPeer) lock() {
	p.done = make(chan error, 1)
	go func() { p.done <- p.l.Lock() }()
}

func (p *goPeer) held() {
	p.t.Helper()
	select {
	case err := <-p.done:
		if err != nil {
			p.t.Fatal(err)
		}
	case <-time.After(patience):
		p.t.Fatal("go-zookeeper's Lock does not return")
	}
}

func (p *goPeer) waits(d time.Duration) {
	p.t.Helper()
	select {
	case err := <-p.done:
		p.t.Fatalf("go-zookeeper's Lock returned with %v, want it to wait", err)
	case <-time.After(d):
	}
}

func (p *goPeer) release() {
	p.t.Helper()
	if err := p.l.Unlock(); err != nil {
		p.t.Fatal(err)
	}
}

// classPath is what Curator of Debian's packages needs.
func classPath() string {
	var jars []string
	for _, jar := range []string{"curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "guava", "slf4j-api", "slf4j-nop"} {
		jars = append(jars, "/usr/share/java/"+jar+".jar")
	}
	return strings.Join(jars, ":")
}

var peers = map[string]struct {
	query string
	start func(t *testing.T, z *testenv.ZooKeeper, path, kind string) peer
	rw    bool
}{
	"Curator": {rw: true, start: func(t *testing.T, z *testenv.ZooKeeper, path, kind string) peer {
		return startProgram(t, "java", "-XX:TieredStopAtLevel=1", "-cp", classPath(), "testdata/Peer.java", hosts(z), path, kind)
	}},
	"Kazoo": {rw: true, query: "?layout=kazoo", start: func(t *testing.T, z *testenv.ZooKeeper, path, kind string) peer {
		return startProgram(t, "/usr/bin/python3", "testdata/peer.py", hosts(z), path, kind)
	}},
	"Go": {start: func(t *testing.T, z *testenv.ZooKeeper, path, _ string) peer {
		return &goPeer{t: t, l: zk.NewLock(raw(t, z), path, zk.WorldACL(zk.PermAll))}
	}},
}

const moment = 150 * time.Millisecond

// Clients of other makes and ours exclude each other, and keep the order in
// which they came.
func TestPeers(t *testing.T) {
	z := testenv.SharedZooKeeper(t, 1)
	for name, kind := range peers {
		t.Run(name+"/Mutex", func(t *testing.T) {
			a, b := open(t, hosts(z), kind.query), open(t, hosts(z), kind.query)
			p := newPlace(backend.Mutex)
			other := kind.start(t, z, linePath(p), "mutex")

			// We hold, the peer waits, one of ours is behind it.
			first := acquire(t, a, p, exclusive)
			other.lock()
			roster(t, a, p, 2)
			last := goAcquire(t, b, p, exclusive)
			roster(t, a, p, 3)
			other.waits(moment)
			release(t, first)
			other.held()
			last.Waiting(moment)

			// The peer holds.
			_, err := a.Acquire(testContext(t), p, noWait)
			wantErr(t, err, backend.ErrBusy)
			other.release()
			release(t, last.Must())

			// It comes first.
			other.lock()
			other.held()
			next := goAcquire(t, a, p, exclusive)
			next.Waiting(moment)
			other.release()
			release(t, next.Must())
		})
		if !kind.rw {
			continue
		}
		t.Run(name+"/Read", func(t *testing.T) {
			a, b := open(t, hosts(z), kind.query), open(t, hosts(z), kind.query)
			p := newPlace(backend.RWMutex)
			reader := kind.start(t, z, linePath(p), "read")
			first := acquire(t, a, p, shared)
			reader.lock()
			reader.held() // beside our own
			writer := goAcquire(t, b, p, exclusive)
			roster(t, a, p, 3)
			release(t, first)
			writer.Waiting(moment)
			reader.release()
			w := writer.Must()
			reader.lock()
			reader.waits(moment)

			// A downgrade lets it in.
			if err := w.Downgrade(testContext(t)); err != nil {
				t.Fatal(err)
			}
			reader.held()
			reader.release()
			release(t, w)
		})
		t.Run(name+"/Write", func(t *testing.T) {
			a, b := open(t, hosts(z), kind.query), open(t, hosts(z), kind.query)
			p := newPlace(backend.RWMutex)
			writer := kind.start(t, z, linePath(p), "write")
			w := acquire(t, a, p, exclusive)
			writer.lock()
			roster(t, a, p, 2)
			writer.waits(moment)
			if err := w.Downgrade(testContext(t)); err != nil {
				t.Fatal(err)
			}
			writer.waits(moment)
			behind := goAcquire(t, b, p, shared)
			roster(t, a, p, 3)
			behind.Waiting(moment) // the writer was first
			release(t, w)
			writer.held()
			behind.Waiting(moment)
			writer.release()
			release(t, behind.Must())
		})
	}
}

// Entries get the names that the peers know.
func TestLayout(t *testing.T) {
	z := testenv.SharedZooKeeper(t, 1)
	conn := raw(t, z)
	for _, c := range []struct {
		query string
		kind  backend.Kind
		claim backend.Claim
		want  string
	}{
		{"", backend.Mutex, exclusive, "_c_%s-lock-0000000000"},
		{"", backend.RWMutex, exclusive, "_c_%s-__WRIT__0000000000"},
		{"", backend.RWMutex, shared, "_c_%s-__READ__0000000000"},
		{"", backend.Semaphore, backend.Claim{Mode: backend.Permit, Weight: 2, Limit: 3}, "_c_%s-permit-2-3-0000000000"},
		{"", backend.Group, presence, "_c_%s-member-0000000000"},
		{"?layout=kazoo", backend.Mutex, exclusive, "%s__lock__0000000000"},
		{"?layout=kazoo", backend.RWMutex, shared, "%s__rlock__0000000000"},
	} {
		b := open(t, hosts(z), c.query)
		p := newPlace(c.kind)
		l := acquire(t, b, p, c.claim)
		names, _, err := conn.Children(linePath(p))
		if err != nil {
			t.Fatal(err)
		}
		guid, _, _ := strings.Cut(l.ID(), ".")
		if want := fmt.Sprintf(c.want, guid); len(names) != 1 || names[0] != want {
			t.Errorf("%s %s: nodes %q, want %q", c.kind, c.claim.Mode, names, want)
		}
		release(t, l)
	}
}

// Kazoo's lock objects cannot do without a node that they have seen, so that
// must not go when nobody uses it for a while.
func TestKazooNodeStays(t *testing.T) {
	z := testenv.SharedZooKeeper(t, 1)
	conn := raw(t, z)
	stays, goes := newPlace(backend.Mutex), newPlace(backend.Mutex)
	release(t, acquire(t, open(t, hosts(z), "?layout=kazoo"), stays, exclusive))
	b := open(t, hosts(z), "")
	l := acquire(t, b, goes, exclusive)
	exists, _, changed, err := conn.ExistsW(linePath(goes))
	if err != nil || !exists {
		t.Fatalf("the node is there: %v, %v", exists, err)
	}
	release(t, l)
	select { // ZooKeeper looks for empty ones now and then
	case <-changed:
	case <-time.After(patience):
		t.Fatal("the node of a place that nobody uses stays")
	}
	if exists, _, err := conn.Exists(linePath(stays)); err != nil || !exists {
		t.Errorf("the node with Kazoo's layout is there: %v, %v; want it to stay", exists, err)
	}
}
