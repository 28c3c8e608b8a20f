package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gocoord/coord/internal/testenv"
)

// output runs coord to its end and returns what it printed.
func (s setup) output(t *testing.T, code int, args ...string) string {
	t.Helper()
	p := s.start(t, args...)
	_ = p.in.Close()
	p.mustEnd(code)
	p.readAll()
	return p.stdout()
}

// TestDefault needs no service and no URL.
func TestDefault(t *testing.T) {
	t.Parallel()
	for _, variable := range []string{"XDG_RUNTIME_DIR", "TMPDIR"} {
		t.Run(variable, func(t *testing.T) {
			dir := shortDir(t)
			s := setup{env: []string{"XDG_RUNTIME_DIR=", variable + "=" + dir}}
			holder := s.start(t, "lock", "demo", "--", "sh", "-c", "echo held; read line; exit 0")
			holder.prints("held", 1)
			s.output(t, 75, "lock", "--try", "demo", "--", "true")
			if out := s.output(t, 0, "status", "demo"); !strings.Contains(out, "holds") {
				t.Errorf("status prints %q", out)
			}
			_ = holder.in.Close()
			holder.mustEnd(0)
			s.output(t, 0, "lock", "--try", "demo", "--", "true")
			if variable == "TMPDIR" {
				entries, err := os.ReadDir(dir)
				if err != nil || len(entries) != 1 {
					t.Fatalf("in the directory are %v, %v", entries, err)
				}
				private := dir + "/" + entries[0].Name()
				if info, err := os.Stat(private); err != nil || info.Mode().Perm() != 0o700 {
					t.Errorf("the directory is %v, %v", info, err)
				}
				// A directory that others may write to is no place for it.
				if err := os.Chmod(private, 0o777); err != nil {
					t.Fatal(err)
				}
				s.output(t, 69, "lock", "demo", "--", "true")
			}
		})
	}
}

// TestModes runs the other kinds of claims beside each other.
func TestModes(t *testing.T) {
	t.Parallel()
	s := setup{url: serviceURL(t)}
	hold := func(args ...string) *program {
		p := s.start(t, append(args, "--", "sh", "-c", "echo in $COORD_KIND $COORD_NAME $COORD_TOKEN; read line; exit 0")...)
		p.prints("in ", 1)
		return p
	}
	free := func(p *program) {
		_ = p.in.Close()
		p.mustEnd(0)
	}
	a, b := hold("lock", "--shared", "x"), hold("lock", "-s", "x")
	s.output(t, 75, "lock", "-n", "x", "--", "true")
	free(a)
	free(b)
	a, b = hold("lock", "--permits", "2", "--limit", "3", "x"), hold("lock", "--limit", "3", "x")
	if !strings.Contains(a.stdout(), "in semaphore x ") {
		t.Errorf("it prints %q", a.stdout())
	}
	s.output(t, 75, "lock", "-n", "--limit", "3", "x", "--", "true")
	s.output(t, 64, "lock", "-n", "--limit", "4", "x", "--", "true")
	out := s.output(t, 0, "status", "x")
	if !strings.Contains(out, `semaphore "x"`) || !strings.Contains(out, "2 of 3") {
		t.Errorf("status prints %q", out)
	}
	free(a)
	free(b)
	a = hold("elect", "--data", "here:1", "x")
	if out := s.output(t, 0, "elect", "--leader", "x"); out != "here:1\n" {
		t.Errorf("the leader is %q", out)
	}
	s.output(t, 75, "lock", "--elect", "-n", "x", "--", "true")
	free(a)
	s.output(t, 1, "elect", "--leader", "x")
	s.output(t, 1, "status", "-q", "x")
}

// TestTokensGrow is what a fencing token is for.
func TestTokensGrow(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, url func(*testing.T) string) {
		s := setup{url: url(t)}
		last := ""
		for range 5 {
			token := strings.TrimSpace(s.output(t, 0, "lock", "x", "--", "sh", "-c", "echo $COORD_TOKEN"))
			if len(token) < len(last) || len(token) == len(last) && token <= last {
				t.Errorf("token %s after %s", token, last)
			}
			last = token
		}
	})
}

// TestNested uses the same service inside, without being told again.
func TestNested(t *testing.T) {
	t.Parallel()
	url := serviceURL(t)
	s := setup{env: []string{"PROGRAM=" + coordBinary}}
	out := s.output(t, 0, "--url", url, "lock", "a", "--", "sh", "-c",
		"$PROGRAM lock -n a -- true; echo $?; $PROGRAM lock -n b -- sh -c 'echo $COORD_NAME'; echo $COORD_NAME")
	if out != "75\nb\na\n" {
		t.Errorf("it prints %q", out)
	}
}

// TestBarrier runs rounds of three.
func TestBarrier(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, url func(*testing.T) string) {
		s := setup{url: url(t)}
		var wg sync.WaitGroup
		rounds := make(chan string, 3)
		for n := range 3 {
			wg.Go(func() {
				cmd := exec.Command(coordBinary, "--url", s.url, "barrier", "-p", "3", "x", "--", "sh", "-c", "echo $COORD_TOKEN; exit "+string(rune('0'+n)))
				out, err := cmd.Output()
				if code := cmd.ProcessState.ExitCode(); code != n {
					t.Errorf("party %d ended with %d, %v", n, code, err)
				}
				rounds <- string(out)
			})
		}
		wg.Wait()
		if a, b, c := <-rounds, <-rounds, <-rounds; a != b || b != c || a == "" {
			t.Errorf("rounds %q, %q and %q, want one", a, b, c)
		}
		for range 3 {
			wg.Go(func() {
				if out, err := exec.Command(coordBinary, "--url", s.url, "lock", "--barrier", "3", "x", "--", "true").CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			})
		}
		wg.Wait()
		// One that waits leaves at once when it is told to.
		p := s.start(t, "barrier", "-p", "2", "y")
		for !strings.Contains(s.output(t, 0, "status", "y", "--kind", "barrier", "--json"), `"state":"holds"`) {
			continue
		}
		p.signal(syscall.SIGTERM)
		p.mustEnd(143)
	})
}

// TestStatus follows a line.
func TestStatus(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, url func(*testing.T) string) {
		s := setup{url: url(t)}
		watch := s.start(t, "status", "--watch", "--json", "x")
		watch.prints(`"entries":[]`, 1)
		p := s.start(t, "--owner", "me", "lock", "x", "--", "sh", "-c", "read line; exit 0")
		watch.prints(`"owner":"me"`, 1)
		var l struct {
			Kind, Name string
			Entries    []struct {
				State, Mode, Owner string
				Token              uint64
			}
		}
		if err := json.Unmarshal([]byte(s.output(t, 0, "status", "--json", "x")), &l); err != nil {
			t.Fatal(err)
		}
		if l.Kind != "lock" || l.Name != "x" || len(l.Entries) != 1 || l.Entries[0].State != "holds" ||
			l.Entries[0].Mode != "exclusive" || l.Entries[0].Owner != "me" || l.Entries[0].Token == 0 {
			t.Errorf("status prints %+v", l)
		}
		s.output(t, 0, "status", "-q", "x")
		_ = p.in.Close()
		p.mustEnd(0)
		watch.prints(`"entries":[]`, 2)
		watch.signal(syscall.SIGINT)
		watch.mustEnd(130)
		s.output(t, 1, "status", "-q", "x")
	})
}

// TestStatusOfAll lists what is in use where the service can tell.
func TestStatusOfAll(t *testing.T) {
	t.Parallel()
	for _, url := range []string{etcdURL(t), serviceURL(t)} {
		s := setup{url: url}
		p := s.start(t, "lock", "a/b c", "--", "sh", "-c", "echo held; read line; exit 0")
		p.prints("held", 1)
		if out := s.output(t, 0, "status"); !strings.Contains(out, `lock "a/b c"`) {
			t.Errorf("status of %s prints %q", url, out)
		}
		_ = p.in.Close()
		p.mustEnd(0)
	}
}

// TestServe has a server that stays.
func TestServe(t *testing.T) {
	t.Parallel()
	s := setup{url: serviceURL(t)}
	server := s.start(t, "serve")
	server.prints("serving ", 1)
	s.output(t, 0, "lock", "x", "--", "true")
	p := s.start(t, "lock", "x", "--", "sh", "-c", "echo held; read line; exit 0")
	p.prints("held", 1)
	server.signal(syscall.SIGTERM)
	server.mustEnd(0)
	// The next one takes over, with the hold.
	s.output(t, 75, "lock", "-n", "x", "--", "true")
	_ = p.in.Close()
	p.mustEnd(0)
	s.output(t, 64, "serve", "etcd://127.0.0.1")
}

// TestDoctor looks at services that are fit and at some that are not.
func TestDoctor(t *testing.T) {
	t.Parallel()
	for _, url := range []string{serviceURL(t), etcdURL(t), "memory://x"} {
		out := setup{}.output(t, 0, "doctor", url)
		if strings.Contains(out, "✗") || !strings.Contains(out, "✓ lock: taken") {
			t.Errorf("the doctor says of %s:\n%s", url, out)
		}
	}
	if out := (setup{url: etcdURL(t)}).output(t, 0, "doctor"); !strings.Contains(out, "version 3.") {
		t.Errorf("the doctor does not know the version:\n%s", out)
	}
	served := setup{url: serviceURL(t)}
	p := served.start(t, "lock", "x", "--", "sh", "-c", "echo held; read line; exit 0")
	p.prints("held", 1)
	if out := served.output(t, 0, "doctor"); !strings.Contains(out, fmt.Sprintf("✓ server: process %d ", p.cmd.Process.Pid)) || !strings.Contains(out, "✓ rights: mode 0600") {
		t.Errorf("the doctor does not know who serves:\n%s", out)
	}
	_ = p.in.Close()
	p.mustEnd(0)
	for _, c := range []struct{ url, says string }{
		{"etcd://127.0.0.1:1/x?dial_timeout=100ms", "✗ connection"},
		{"etcd://127.0.0.1:1/x?ttl=x", "✗ URL"},
		{"socket:///no/such/directory/s", "mkdir -p"},
		{"socket:///proc/s", "✗ "},
	} {
		if out := (setup{}).output(t, 1, "doctor", c.url); !strings.Contains(out, c.says) {
			t.Errorf("the doctor says of %s:\n%s", c.url, out)
		}
	}
	var d struct {
		Fit    bool
		Checks []struct{ Check, Result, Detail string }
	}
	if err := json.Unmarshal([]byte(setup{}.output(t, 0, "doctor", "--json", "memory://x")), &d); err != nil || !d.Fit || len(d.Checks) < 4 {
		t.Errorf("%+v, %v", d, err)
	}
	// Without rights it says which are missing.
	c := testenv.Etcd(t, testenv.Auth("root", "secret", 60))
	for _, args := range [][]string{{"user", "add", "guest:guest"}, {"role", "add", "none"}, {"user", "grant-role", "guest", "none"}} {
		if _, err := c.Ctl(args...); err != nil {
			t.Fatal(err)
		}
	}
	out := setup{url: "etcd://guest:guest@" + c.Endpoints()[0] + "/jobs"}.output(t, 1, "doctor")
	if !strings.Contains(out, "readwrite permission") {
		t.Errorf("the doctor says:\n%s", out)
	}
}

// TestDescriptors shows that the command has coord's files, others too.
func TestDescriptors(t *testing.T) {
	t.Parallel()
	s := setup{url: serviceURL(t)}
	p := s.startCommand(t, shell("exec 5>&1; "+coordBinary+" lock x -- sh -c 'cat; echo five >&5'"))
	_, _ = p.in.Write([]byte("through\n"))
	_ = p.in.Close()
	p.mustEnd(0)
	p.readAll()
	if out := p.stdout(); out != "through\nfive\n" {
		t.Errorf("it prints %q", out)
	}
}
