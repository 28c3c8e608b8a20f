package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// failing is a Reporter that keeps what it is told instead of failing.
type failing struct {
	*testing.T
	failure string
	logged  strings.Builder
}

type stopped struct{}

func (f *failing) Failed() bool { return f.failure != "" }

func (f *failing) Logf(format string, args ...any) { fmt.Fprintf(&f.logged, format+"\n", args...) }

func (f *failing) Fatalf(format string, args ...any) {
	f.failure = fmt.Sprintf(format, args...)
	panic(stopped{})
}

// failure returns the message that f fails its Reporter with.
func failure(t *testing.T, f func(tb Reporter)) (message string) {
	t.Helper()
	tb := &failing{T: t}
	defer func() {
		if r := recover(); r != nil && r != any(stopped{}) {
			panic(r)
		}
		message = tb.failure
	}()
	f(tb)
	t.Error("it did not fail")
	return ""
}

func wantIn(t *testing.T, message string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(message, part) {
			t.Errorf("the message lacks %q:\n%s", part, message)
		}
	}
}

func TestFailuresSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	// What etcd itself says about its arguments is in its log.
	wantIn(t, failure(t, func(tb Reporter) { Etcd(tb, ExtraArgs("--no-such-flag")) }),
		"node0 ended before it served", "flag provided but not defined: -no-such-flag")
	wantIn(t, failure(t, func(tb Reporter) { Etcd(tb, Nodes(2)) }), "1 or 3 nodes")
	wantIn(t, failure(t, func(tb Reporter) { Etcd(tb, Auth("u", "white space", 1)) }), "choose another")
	wantIn(t, failure(t, func(tb Reporter) { Etcd(tb, Auth("u", "p", 0)) }), "token lifetime")
	wantIn(t, failure(t, func(tb Reporter) { NewProxy(tb, "udp", "127.0.0.1:1") }), `neither "tcp" nor "unix"`)
	wantIn(t, failure(t, func(tb Reporter) { SharedEtcd(tb).Stop(0) }), "start one with Etcd")
	wantIn(t, failure(t, func(tb Reporter) {
		c := Etcd(tb)
		c.Kill(0)
		c.Stop(0)
	}), "Restart it first")
	wantIn(t, failure(t, func(tb Reporter) { Etcd(tb).Kill(1) }), "1 nodes, counted from 0")
}

func TestBuildFailureHasTheOutput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module broken\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nfunc main() { undefinedFunction() }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	err := buildOne(dir, "broken", out)
	if err == nil {
		t.Fatal("it did not fail")
	}
	wantIn(t, err.Error(), "undefined: undefinedFunction")
	if left, err := filepath.Glob(out + "*"); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestLogIsPrintedForAFailedTest(t *testing.T) {
	t.Parallel()
	var tb *failing
	t.Run("inner", func(t *testing.T) {
		tb = &failing{T: t}
		Etcd(tb)
		tb.failure = "something"
	})
	wantIn(t, tb.logged.String(), "end of the log of etcd node0", "ready to serve client requests")
}

func TestATakenPortIsTriedAgain(t *testing.T) {
	t.Parallel()
	c := Etcd(t)
	n := c.s.nodes[0]
	c.Kill(0)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", loopback(n.clientPort))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.s.startNode(n); err != nil {
		t.Fatal(err)
	}
	if err := c.s.awaitHealth(n); !errors.Is(err, errPortTaken) {
		t.Errorf("a taken port gives %v", err)
	}
	// An etcd of another test that answers on the port is not taken for ours.
	other := SharedEtcd(t).s
	ours := &node{name: "ours", dir: t.TempDir(), clientPort: other.nodes[0].clientPort}
	if err := other.healthy(t.Context(), ours); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Errorf("another server was taken for the node: %v", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		// The other process lets go of the port after another attempt at it.
		before := countLog(n, "address already in use")
		for countLog(n, "address already in use") == before {
			select {
			case <-t.Context().Done():
			case <-time.After(pollEvery):
			}
		}
		_ = l.Close()
	})
	c.Restart(0)
	wg.Wait()
}

func countLog(n *node, text string) int {
	data, err := os.ReadFile(n.logPath)
	if err != nil {
		return 0
	}
	return bytes.Count(data, []byte(text))
}

func TestAnAppliedRequestWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	c := Etcd(t)
	p := NewProxy(t, "tcp", c.Endpoints()[0])
	lost := p.CutAfterRequest(func(b []byte) bool { return bytes.Contains(b, []byte("the-key")) })
	if out, err := c.Ctl("put", "the-key", "v", "--endpoints", p.Addr()); err == nil {
		t.Errorf("the client got a reply: %s", out)
	}
	<-lost
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	for !strings.Contains(mustCtl(t, c, "get", "the-key", "--write-out=fields"), `"Version" : 1`) {
		select {
		case <-ctx.Done():
			t.Fatal("the request was not applied")
		case <-time.After(pollEvery):
		}
	}
}
