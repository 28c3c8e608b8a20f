//go:build linux || darwin

package socket

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/gocoord/coord/backend"
)

// The helper is this test binary, run again: a process with one client, which
// does what it is told on its standard input.
const helperEnv = "COORD_SOCKET_HELPER"

func TestMain(m *testing.M) {
	if path := os.Getenv(helperEnv); path != "" {
		help(path, os.Stdin, os.Stdout)
		os.Exit(0)
	}
	if path := os.Getenv(echoEnv); path != "" {
		echo(path)
		os.Exit(0)
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var (
	exclusive = backend.Claim{Mode: backend.Exclusive}
	shared    = backend.Claim{Mode: backend.Shared}
)

func mutex(name string) backend.Place { return backend.Place{Kind: backend.RWMutex, Name: name} }

func help(path string, in io.Reader, out io.Writer) {
	if umask, err := strconv.ParseUint(os.Getenv("COORD_SOCKET_UMASK"), 8, 32); err == nil {
		syscall.Umask(int(umask))
	}
	h := &helper{out: out, leases: make(map[string]backend.Lease)}
	var err error
	// Before any other file, so that the kernel lets go of it first.
	if h.witness, err = os.OpenFile(path+".witness", os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		h.say("failed %v", err)
		return
	}
	_ = h.witness.Chmod(0o660) // it may be another user's
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	var opts []Option
	if os.Getenv("COORD_SOCKET_MODE") == "0660" {
		opts = append(opts, WithMode(0o660))
	}
	b, err := Open(ctx, path, opts...)
	cancel()
	if err != nil {
		h.say("failed %v", err)
		return
	}
	h.b = b
	h.say("open")
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		words := append(strings.Fields(lines.Text()), "", "")
		h.do(words[0], words[1], words[2])
	}
	h.loops.Wait()
	if err := b.Close(); err != nil {
		h.say("failed %v", err)
	}
}

type helper struct {
	b       *Backend
	witness *os.File
	loops   sync.WaitGroup
	turning atomic.Bool
	turned  chan int

	mu     sync.Mutex
	out    io.Writer
	leases map[string]backend.Lease
}

func (h *helper) say(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, _ = fmt.Fprintf(h.out, format+"\n", args...)
}

func (h *helper) lease(name string) backend.Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leases[name]
}

func (h *helper) do(command, name, arg string) {
	switch command {
	case "lock", "rlock":
		c := exclusive
		if command == "rlock" {
			c = shared
		}
		go func() {
			l, err := h.b.Acquire(context.Background(), mutex(name), c)
			if err != nil {
				h.say("failed %v", err)
				return
			}
			h.mu.Lock()
			h.leases[name] = l
			h.mu.Unlock()
			h.say("locked %s %d", name, l.Token())
			<-l.Done()
			if err := l.Err(); errors.Is(err, backend.ErrLost) {
				h.say("lost %s %v", name, err)
			}
		}()
	case "stamp": // lock, say when that was, and unlock
		go func() {
			l, err := h.b.Acquire(context.Background(), mutex(name), exclusive)
			at := monotonic()
			if err == nil {
				err = l.Release(context.Background())
			}
			if err != nil {
				h.say("failed %v", err)
				return
			}
			h.say("stamped %d", at)
		}()
	case "unlock":
		if err := h.lease(name).Release(context.Background()); err != nil {
			h.say("failed %v", err)
			return
		}
		h.say("unlocked %s", name)
	case "held":
		h.say("held %s %v", name, h.lease(name).Err())
	case "role":
		if h.b.server.Load() != nil {
			h.say("role server")
		} else {
			h.say("role client")
		}
	case "child":
		cmd := exec.Command("sleep", "60")
		if err := cmd.Start(); err != nil {
			h.say("failed %v", err)
			return
		}
		h.say("child %d", cmd.Process.Pid)
	case "line":
		r, err := h.b.Observe(context.Background(), mutex(name), "")
		h.say("line %d %v", len(r.Entries), err)
	case "await": // until the line has arg entries
		n, _ := strconv.Atoi(arg)
		var since backend.Version
		for {
			r, err := h.b.Observe(context.Background(), mutex(name), since)
			if err != nil {
				h.say("failed %v", err)
				return
			}
			if len(r.Entries) == n {
				h.say("awaited %s %d", name, n)
				return
			}
			since = r.Version
		}
	case "turns", "flocks":
		h.turning.Store(true)
		h.turned = make(chan int, 1)
		h.say("turning")
		go h.turns(command == "flocks")
	case "stop":
		h.turning.Store(false)
		h.say("turned %d", <-h.turned)
	case "contend":
		n, _ := strconv.Atoi(arg)
		h.loops.Go(func() { h.contend(name, n) })
	}
}

// monotonic reads the clock that all processes of the host share.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// turns takes a lock again and again, for a benchmark.
func (h *helper) turns(flock bool) {
	n := 0
	for ; h.turning.Load(); n++ {
		if flock {
			_ = syscall.Flock(int(h.witness.Fd()), syscall.LOCK_EX)
			_ = syscall.Flock(int(h.witness.Fd()), syscall.LOCK_UN)
			continue
		}
		l, err := h.b.Acquire(context.Background(), mutex("a"), exclusive)
		if err != nil {
			h.say("failed %v", err)
			break
		}
		_ = l.Release(context.Background())
	}
	h.turned <- n
}

// contend locks and unlocks, and looks each time whether it is alone: by a
// flock that the kernel gives to one only, and by the tokens.
func (h *helper) contend(name string, n int) {
	for range n {
		if err := h.round(name); err != nil {
			h.say("failed %v", err)
			return
		}
	}
	h.say("done")
}

func (h *helper) round(name string) error {
	l, err := h.b.Acquire(context.Background(), mutex(name), exclusive)
	if err != nil {
		return err
	}
	if got, err := lock(h.witness); err != nil || !got {
		return fmt.Errorf("two hold %s: token %d, %v", name, l.Token(), err)
	}
	var last [20]byte
	k, _ := h.witness.ReadAt(last[:], 0)
	token, _ := strconv.ParseUint(strings.TrimSpace(string(last[:k])), 10, 64)
	if l.Token() <= token {
		return fmt.Errorf("token %d after %d", l.Token(), token)
	}
	if _, err := h.witness.WriteAt(fmt.Appendf(nil, "%20d", l.Token()), 0); err != nil {
		return err
	}
	if err := l.Err(); err != nil {
		return err
	}
	if err := syscall.Flock(int(h.witness.Fd()), syscall.LOCK_UN); err != nil {
		return err
	}
	return l.Release(context.Background())
}

// A proc is a helper as the test sees it.
type proc struct {
	t    testing.TB
	cmd  *exec.Cmd
	in   io.WriteCloser
	said chan string
}

// start starts a helper, and does not wait until it is open.
func start(t testing.TB, path string, env ...string) *proc {
	t.Helper()
	p := prepare(t, path, env...)
	p.run()
	return p
}

func prepare(t testing.TB, path string, env ...string) *proc {
	p := &proc{t: t, cmd: exec.Command(os.Args[0]), said: make(chan string, 1000)}
	p.cmd.Env = append(append(os.Environ(), helperEnv+"="+path, "GORACE=atexit_sleep_ms=0"), env...)
	p.cmd.Stderr = os.Stderr
	return p
}

func (p *proc) run() {
	t := p.t
	t.Helper()
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.said)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			p.said <- lines.Text()
		}
	}()
	t.Cleanup(p.kill)
}

// helping starts a helper that is open.
func helping(t testing.TB, path string, env ...string) *proc {
	t.Helper()
	p := start(t, path, env...)
	p.hears("open")
	return p
}

func (p *proc) tell(format string, args ...any) {
	_, _ = fmt.Fprintf(p.in, format+"\n", args...)
}

// hears waits for a line that begins so, and returns the rest of it.
func (p *proc) hears(prefix string) string {
	p.t.Helper()
	for {
		select {
		case line, ok := <-p.said:
			if !ok {
				p.t.Fatalf("process %d ended instead of %q", p.pid(), prefix)
			}
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				return strings.TrimSpace(rest)
			}
			if strings.HasPrefix(line, "failed") || strings.HasPrefix(line, "lost") {
				p.t.Fatalf("process %d, instead of %q: %s", p.pid(), prefix, line)
			}
		case <-time.After(20 * time.Second):
			p.t.Fatalf("process %d did not say %q", p.pid(), prefix)
		}
	}
}

// silent shows that a helper still waits.
func (p *proc) silent(d time.Duration) {
	p.t.Helper()
	select {
	case line := <-p.said:
		p.t.Fatalf("process %d says %q; want nothing", p.pid(), line)
	case <-time.After(d):
	}
}

func (p *proc) ask(prefix, format string, args ...any) string {
	p.t.Helper()
	p.tell(format, args...)
	return p.hears(prefix)
}

func (p *proc) lock(name string) uint64 {
	p.t.Helper()
	rest := p.ask("locked "+name, "lock %s", name)
	token, _ := strconv.ParseUint(rest, 10, 64)
	return token
}

func (p *proc) pid() int { return p.cmd.Process.Pid }

func (p *proc) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// stop stops the process, and returns when it has stopped.
func (p *proc) stop() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(p.pid(), &status, syscall.WUNTRACED, nil)
		if err == nil && status.Stopped() {
			return
		}
		if !errors.Is(err, syscall.EINTR) {
			p.t.Fatalf("process %d did not stop: %v", p.pid(), err)
		}
	}
}

func (p *proc) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// end closes the helper in order.
func (p *proc) end() {
	p.t.Helper()
	_ = p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("process %d: %v", p.pid(), err)
	}
}

// serverOf waits for a server that is not of process not, and returns its
// process.
func serverOf(t *testing.T, path string, not int) int {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Microsecond) {
		c, err := net.Dial("unix", path)
		if err != nil {
			continue
		}
		pid, _, err := peerOf(c.(*net.UnixConn))
		c.Close()
		if err == nil && pid != not {
			return pid
		}
	}
	t.Fatalf("no server at %s", path)
	return 0
}

func socketPath(t *testing.T) string { return t.TempDir() + "/s" }
