package main_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
	_ "github.com/gocoord/coord/backend/all"
	"github.com/gocoord/coord/internal/testenv"
)

// coordBinary is the program under test, built once.
var coordBinary string

func TestMain(m *testing.M) {
	if mode := os.Getenv("COORD_TEST_COMMAND"); mode != "" {
		os.Exit(command(mode))
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "coord-cmd-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		coordBinary = filepath.Join(dir, "coord")
		if out, err := exec.Command("go", "build", "-o", coordBinary, ".").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
			return 1
		}
		return testenv.Main(m)
	}())
}

const patience = 30 * time.Second

var names atomic.Int64

// unique returns a name that no other test uses.
func unique() string { return fmt.Sprintf("n%d-%d", os.Getpid(), names.Add(1)) }

// serviceURL names a service that the processes of a test have in common.
func serviceURL(t *testing.T) string {
	t.Helper()
	return "socket://" + shortDir(t) + "/s"
}

// shortDir is a directory whose path leaves room for that of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "coord-") //nolint:usetesting // those are long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// etcdURL is serviceURL on a network.
func etcdURL(t *testing.T) string {
	t.Helper()
	return "etcd://" + testenv.SharedEtcd(t).Endpoints()[0] + "/" + unique() + "?ttl=2s"
}

// onEach runs a test on each of these services.
func onEach(t *testing.T, f func(t *testing.T, url func(*testing.T) string)) {
	for name, url := range map[string]func(*testing.T) string{"socket": serviceURL, "etcd": etcdURL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, url)
		})
	}
}

// client is one more client of a service, in this process.
func client(t *testing.T, url string) *coord.Client {
	t.Helper()
	c, err := coord.Open(testContext(t), url, coord.WithOwner("test"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// mustBeFree takes the lock with a patience that no session's end fits into.
func mustBeFree(t *testing.T, c *coord.Client, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	h, err := c.Locker(name).Lock(ctx)
	if err != nil {
		t.Fatalf("the lock is not free: %v", err)
	}
	if err := h.Release(); err != nil {
		t.Fatal(err)
	}
}

// observer is a client below the SDK, which can wait for what others do.
func observer(t *testing.T, url string) backend.Backend {
	t.Helper()
	open, err := backend.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	b, err := open(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// awaitLine waits until the lock's line looks as it should.
func awaitLine(t *testing.T, b backend.Backend, name string, ok func([]backend.Entry) bool) {
	t.Helper()
	ctx := testContext(t)
	var r backend.Roster
	for {
		var err error
		if r, err = b.Observe(ctx, backend.Place{Kind: backend.Mutex, Name: name}, r.Version); err != nil {
			t.Fatalf("waiting for the line of %q, now %d long: %v", name, len(r.Entries), err)
		}
		if ok(r.Entries) {
			return
		}
	}
}

func length(n int) func([]backend.Entry) bool {
	return func(line []backend.Entry) bool { return len(line) == n }
}

// A program is a run of the program under test.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	tty    *os.File // its terminal's other side, if it has one
	in     io.WriteCloser
	done   chan struct{}
	mu     sync.Mutex
	out    bytes.Buffer // with a terminal both
	errOut bytes.Buffer
	more   chan struct{} // closed when there is more
	reads  sync.WaitGroup
}

// setup is how a program is started.
type setup struct {
	url string // COORD_URL
	env []string
	tty bool
	dir string
}

// start starts coord with these arguments.
func (s setup) start(t *testing.T, args ...string) *program {
	t.Helper()
	return s.startCommand(t, exec.Command(coordBinary, args...))
}

func (s setup) startCommand(t *testing.T, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{t: t, cmd: cmd, done: make(chan struct{}), more: make(chan struct{})}
	cmd.Dir = s.dir
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "COORD_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	if s.url != "" {
		cmd.Env = append(cmd.Env, "COORD_URL="+s.url)
	}
	cmd.Env = append(cmd.Env, s.env...)
	if s.tty {
		tty, err := pty.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		// A read in progress would keep a blocking one from being closed.
		fd, err := syscall.Dup(int(tty.Fd()))
		if err == nil {
			err = syscall.SetNonblock(fd, true)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = tty.Close()
		p.tty = os.NewFile(uintptr(fd), "terminal")
		p.read(p.tty, &p.out)
	} else {
		p.startPlain()
	}
	go func() {
		_ = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.done
		if p.tty != nil {
			_ = p.tty.Close()
		}
		if p.in != nil {
			_ = p.in.Close()
		}
	})
	return p
}

// startPlain starts it in a group of its own, with pipes. The test reads them
// itself: the end of a program must not depend on who has its output open.
func (p *program) startPlain() {
	p.t.Helper()
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	inR, inW, err := os.Pipe()
	if err != nil {
		p.t.Fatal(err)
	}
	p.cmd.Stdin, p.in = inR, inW
	var writers []*os.File
	for _, to := range []*bytes.Buffer{&p.out, &p.errOut} {
		r, w, err := os.Pipe()
		if err != nil {
			p.t.Fatal(err)
		}
		writers = append(writers, w)
		p.read(r, to)
	}
	p.cmd.Stdout, p.cmd.Stderr = writers[0], writers[1]
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	_ = inR.Close()
	for _, w := range writers {
		_ = w.Close()
	}
}

func (p *program) read(r *os.File, to *bytes.Buffer) {
	p.reads.Go(func() {
		defer func() { _ = r.Close() }()
		buf := make([]byte, 4096)
		for {
			n, err := r.Read(buf)
			p.mu.Lock()
			to.Write(buf[:n])
			close(p.more)
			p.more = make(chan struct{})
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
}

func (p *program) stdout() string { return p.text(&p.out) }

func (p *program) stderr() string {
	if p.tty != nil {
		return p.stdout()
	}
	return p.text(&p.errOut)
}

func (p *program) text(b *bytes.Buffer) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.ReplaceAll(b.String(), "\r\n", "\n")
}

// prints waits until the program has printed this text n times to standard
// output.
func (p *program) prints(text string, n int) string {
	p.t.Helper()
	return p.await(p.stdout, text, n)
}

// complains is prints for standard error.
func (p *program) complains(text string) {
	p.t.Helper()
	p.await(p.stderr, text, 1)
}

func (p *program) await(read func() string, text string, n int) string {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		p.mu.Lock()
		more := p.more
		p.mu.Unlock()
		if out := read(); strings.Count(out, text) >= n {
			return out
		}
		select {
		case <-more:
		case <-deadline:
			p.t.Fatalf("it does not print %q %d times; it printed\n%s\nand to standard error\n%s", text, n, p.stdout(), p.stderr())
		}
	}
}

// field waits for "text<value>\n" and returns the value.
func (p *program) field(text string) string {
	p.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		_, rest, _ := strings.Cut(p.prints(text, 1), text)
		if value, _, whole := strings.Cut(rest, "\n"); whole {
			return strings.TrimSpace(value)
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("no end of line after %q", text)
		}
	}
}

// ends waits for the program's end and returns its exit status; one that a
// signal ended has -1.
func (p *program) ends() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("it does not end; it printed\n%s\nand to standard error\n%s", p.stdout(), p.stderr())
	}
	return p.cmd.ProcessState.ExitCode()
}

// readAll waits for the end of the output, too.
func (p *program) readAll() {
	p.ends()
	p.t.Helper()
	if p.tty != nil {
		return
	}
	read := make(chan struct{})
	go func() {
		p.reads.Wait()
		close(read)
	}()
	select {
	case <-read:
	case <-time.After(patience):
		p.t.Fatal("somebody has its output open")
	}
}

func (p *program) mustEnd(code int) {
	p.t.Helper()
	if got := p.ends(); got != code {
		p.t.Fatalf("exit status %d, want %d; it printed\n%s\nand to standard error\n%s", got, code, p.stdout(), p.stderr())
	}
}

func (p *program) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// gone waits for the end of a process that is not a child of this one.
func gone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(patience); alive(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d does not end", pid)
		}
	}
}

// alive reports whether a process runs, and is not only waiting to be reaped.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// both runs a test with a terminal and without.
func both(t *testing.T, f func(t *testing.T, s setup)) {
	for _, tty := range []bool{false, true} {
		name := "plain"
		if tty {
			name = "terminal"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, setup{tty: tty, dir: t.TempDir()})
		})
	}
}

// shell is a command for sh.
func shell(script string) *exec.Cmd { return exec.Command("/bin/sh", "-c", script) }
