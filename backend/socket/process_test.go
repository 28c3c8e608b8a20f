//go:build linux || darwin

package socket

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gocoord/coord/backend"
)

var successions = flag.Int("successions", 40, "how many servers TestSuccessions kills, with real processes")

// TestServerKilledWhileItHolds: the next is granted, and the tokens go on.
func TestServerKilledWhileItHolds(t *testing.T) {
	path := socketPath(t)
	server, client := helping(t, path), helping(t, path)
	first := server.lock("a")
	client.tell("lock a")
	server.ask("awaited", "await a 2")
	killed := time.Now()
	server.kill()
	second, _ := strconv.ParseUint(client.hears("locked a"), 10, 64)
	took := time.Since(killed)
	if second <= first {
		t.Errorf("token %d after %d", second, first)
	}
	if took > 2*time.Second {
		t.Errorf("the next was granted after %v", took)
	}
	t.Logf("granted %v after the kill", took)
	if role := client.ask("role", "role"); role != "server" {
		t.Errorf("the survivor is %s, want server", role)
	}
	client.end()
	empty(t, path)
}

// empty shows that nothing is left but the files that stay by design.
func empty(t *testing.T, path string) {
	t.Helper()
	for _, name := range []string{path} {
		if _, err := os.Lstat(name); err == nil {
			t.Errorf("%s is left", name)
		}
	}
	files, err := os.ReadDir(path + ".d")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() != "journal" {
			t.Errorf("%s is left in %s.d", f.Name(), path)
		}
	}
}

// TestServerKilledWhileClientHolds: the hold goes on, the queue keeps its
// order, and a release that nobody heard is settled.
func TestServerKilledWhileClientHolds(t *testing.T) {
	path := socketPath(t)
	server, holder, second, third := helping(t, path), helping(t, path), helping(t, path), helping(t, path)
	holder.lock("a")
	second.tell("lock a")
	holder.ask("awaited", "await a 2")
	third.tell("lock a")
	holder.ask("awaited", "await a 3")
	server.kill()
	now := serverOf(t, path, server.pid())
	t.Logf("process %d took over", now)
	if got := holder.ask("line", "line a"); got != "3 <nil>" {
		t.Errorf("the line after the succession: %s; want 3", got)
	}
	if got := holder.ask("held", "held a"); got != "a <nil>" {
		t.Errorf("the hold after the succession: %s", got)
	}
	second.silent(50 * time.Millisecond)
	holder.ask("unlocked", "unlock a")
	second.hears("locked a")
	third.silent(50 * time.Millisecond)
	second.ask("unlocked", "unlock a")
	third.hears("locked a")
	for _, p := range []*proc{holder, second, third} {
		p.end()
	}
	empty(t, path)
}

// TestSuccessions kills one server after another while eight processes contend.
func TestSuccessions(t *testing.T) {
	path := socketPath(t)
	const contenders = 8
	procs := make(map[int]*proc)
	add := func() {
		p := helping(t, path)
		p.tell("contend a 1000000")
		procs[p.pid()] = p
	}
	for range contenders {
		add()
	}
	// A hold that goes on through all of them.
	keeper := helping(t, path)
	token := keeper.lock("kept")
	procs[keeper.pid()] = keeper
	last := 0
	for n := range *successions {
		pid := serverOf(t, path, last)
		p := procs[pid]
		if p == nil {
			t.Fatalf("process %d serves, and nobody knows it", pid)
		}
		last = pid
		p.kill()
		drain(t, p)
		delete(procs, pid)
		if p == keeper {
			keeper = helping(t, path)
			next := keeper.lock("kept")
			if next <= token {
				t.Fatalf("token %d after %d", next, token)
			}
			token = next
			procs[keeper.pid()] = keeper
		} else {
			add()
		}
		if n%10 == 9 {
			if got := keeper.ask("held", "held kept"); got != "kept <nil>" {
				t.Fatalf("the kept hold: %s", got)
			}
		}
	}
	for _, p := range procs {
		p.kill()
		drain(t, p)
	}
}

// drain looks for complaints in what a process has said.
func drain(t *testing.T, p *proc) {
	t.Helper()
	for line := range p.said {
		if strings.HasPrefix(line, "failed") || strings.HasPrefix(line, "lost") {
			t.Fatalf("process %d: %s", p.pid(), line)
		}
	}
}

// TestServerStopped: nobody takes over while the server is stopped, and all
// goes on when it is continued.
func TestServerStopped(t *testing.T) {
	path := socketPath(t)
	server, holder, waiter := helping(t, path), helping(t, path), helping(t, path)
	holder.lock("a")
	waiter.tell("lock a")
	holder.ask("awaited", "await a 2")
	server.stop()
	holder.tell("unlock a")
	late := start(t, path)
	waiter.silent(300 * time.Millisecond)
	late.silent(10 * time.Millisecond)
	server.signal(syscall.SIGCONT)
	holder.hears("unlocked a")
	waiter.hears("locked a")
	late.hears("open")
	if role := server.ask("role", "role"); role != "server" {
		t.Errorf("the one that was stopped is %s, want server", role)
	}
}

// TestClientStopped: it keeps its hold and its place, also when the server
// dies meanwhile.
func TestClientStopped(t *testing.T) {
	path := socketPath(t)
	server, holder, waiter := helping(t, path), helping(t, path), helping(t, path)
	holder.lock("a")
	waiter.tell("lock a")
	holder.ask("awaited", "await a 2")
	holder.stop()
	server.kill()
	serverOf(t, path, server.pid())
	waiter.silent(300 * time.Millisecond)
	holder.signal(syscall.SIGCONT)
	if got := holder.ask("held", "held a"); got != "a <nil>" {
		t.Errorf("the hold: %s", got)
	}
	holder.ask("unlocked", "unlock a")
	waiter.hears("locked a")
}

// TestStoppedClientKilled: a client that dies while it is stopped and without
// a connection is found, too.
func TestStoppedClientKilled(t *testing.T) {
	path := socketPath(t)
	server, holder, waiter := helping(t, path), helping(t, path), helping(t, path)
	holder.lock("a")
	waiter.tell("lock a")
	holder.ask("awaited", "await a 2")
	holder.stop()
	server.kill()
	serverOf(t, path, server.pid())
	waiter.silent(50 * time.Millisecond)
	holder.kill()
	waiter.hears("locked a")
}

// TestStartTogether: many processes start at once on a stale socket.
func TestStartTogether(t *testing.T) {
	path := socketPath(t)
	old := helping(t, path)
	old.kill()
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("no stale socket: %v", err)
	}
	procs := make([]*proc, 20)
	for i := range procs {
		procs[i] = start(t, path)
	}
	for _, p := range procs {
		p.tell("contend a 20")
	}
	servers := 0
	for _, p := range procs {
		p.hears("done")
	}
	for _, p := range procs {
		if p.ask("role", "role") == "server" {
			servers++
		}
	}
	if servers != 1 {
		t.Errorf("%d servers, want 1", servers)
	}
	for _, p := range procs {
		p.end()
	}
	empty(t, path)
}

// TestChildKeepsNothing: a child that outlives its parent holds no lock.
func TestChildKeepsNothing(t *testing.T) {
	for _, role := range []string{"server", "client"} {
		t.Run(role, func(t *testing.T) {
			path := socketPath(t)
			a, b := helping(t, path), helping(t, path)
			holder, other := a, b
			if role == "client" {
				holder, other = b, a
			}
			holder.lock("a")
			pid, err := strconv.Atoi(holder.ask("child", "child"))
			if err != nil {
				t.Fatal(err)
			}
			defer syscall.Kill(pid, syscall.SIGKILL) //nolint:errcheck // it may be gone
			other.tell("lock a")
			holder.ask("awaited", "await a 2")
			holder.kill()
			other.hears("locked a")
			if err := syscall.Kill(pid, 0); err != nil {
				t.Errorf("the child has ended: %v", err)
			}
		})
	}
}

// TestHandOver: a server that closes in order hands over, with its queue.
func TestHandOver(t *testing.T) {
	path := socketPath(t)
	for range 20 {
		a, b, c := helping(t, path), helping(t, path), helping(t, path)
		a.lock("a")
		b.lock("b")
		c.tell("lock a")
		a.ask("awaited", "await a 2")
		a.end()
		c.hears("locked a")
		if got := b.ask("held", "held b"); got != "b <nil>" {
			t.Fatalf("the hold of a client: %s", got)
		}
		b.end()
		c.end()
		empty(t, path)
	}
}

// TestKilledHolders is fifty rounds of B13's class: a holder dies, and the
// waiter gets it at once, with a greater token.
func TestKilledHolders(t *testing.T) {
	path := socketPath(t)
	b := opened(t, path)
	last := uint64(0)
	for range 15 {
		p := helping(t, path)
		token := p.lock("a")
		if token <= last {
			t.Fatalf("token %d after %d", token, last)
		}
		got := make(chan backend.Lease, 1)
		go func() {
			l, err := b.Acquire(t.Context(), mutex("a"), exclusive)
			if err != nil {
				t.Errorf("the waiter: %v", err)
			}
			got <- l
		}()
		inLine(t, b, "a", 2)
		p.kill()
		l := <-got
		if l == nil {
			return
		}
		if last = l.Token(); last <= token {
			t.Fatalf("token %d after %d", last, token)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// opened is a client in this process.
func opened(t testing.TB, path string) *Backend {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	b, err := Open(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// inLine waits until so many are in line.
func inLine(t testing.TB, b *Backend, name string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var since backend.Version
	for {
		r, err := b.Observe(ctx, mutex(name), since)
		if err != nil {
			t.Fatal(fmt.Errorf("waiting for %d in line: %w", n, err))
		}
		if len(r.Entries) == n {
			return
		}
		since = r.Version
	}
}

// TestRegistersOutliveAll: what was stored is there when none of the processes
// that stored it runs, and counts on.
func TestRegistersOutliveAll(t *testing.T) {
	path := socketPath(t)
	place := backend.Place{Kind: backend.Latch, Name: "l"}
	var version backend.Version = "0"
	for i := range 5 {
		ctx := t.Context()
		b, err := Open(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		v, err := b.Load(ctx, place, "")
		if err != nil || v.Version != version {
			t.Fatalf("the register is %q at %q, %v; want version %q", v.Data, v.Version, err, version)
		}
		if version, err = b.Store(ctx, place, []byte{byte(i)}, version); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			b.crash()
		} else if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	b := opened(t, path)
	if _, err := b.Store(t.Context(), place, nil, "0"); !errors.Is(err, backend.ErrConflict) {
		t.Errorf("Store on an old version: %v, want ErrConflict", err)
	}
	if _, err := b.Store(t.Context(), place, nil, version); err != nil {
		t.Errorf("removing the register: %v", err)
	}
}
