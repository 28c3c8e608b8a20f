package main_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gocoord/coord/internal/testenv"
)

// lose revokes the sessions of all who hold or wait below a URL, as an operator
// could. A client notices at its next renewal.
func lose(t *testing.T, c *testenv.Cluster, url string) {
	t.Helper()
	keys, err := c.Ctl("get", "--prefix", "--keys-only", prefix(url)+"locks/")
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(keys) == "" {
		t.Fatal("nobody holds anything")
	}
	for key := range strings.FieldsSeq(keys) {
		lease, _, _ := strings.Cut(key[strings.LastIndex(key, "/")+1:], "-")
		if _, err := c.Ctl("lease", "revoke", lease); err != nil {
			t.Fatal(err)
		}
	}
}

// prefix is what the keys of an etcd URL begin with.
func prefix(url string) string {
	_, p, _ := strings.Cut(strings.TrimPrefix(url, "etcd://"), "/")
	p, _, _ = strings.Cut(p, "?")
	return "/" + p + "/"
}

// TestLost takes the lock away from commands of each kind.
func TestLost(t *testing.T) {
	for _, c := range []struct {
		name  string
		mode  string   // of the command; "" is the script
		args  []string // of coord
		code  int
		says  string
		grace bool // it takes the whole grace
	}{
		{"obedient", "", nil, 79, "was lost; the command gets TERM", false},
		{"stubborn", "stubborn", []string{"--grace", "300ms"}, 79, "it gets KILL", true},
		{"family", "family", []string{"--grace", "300ms"}, 79, "was lost", true},
		{"another status", "", []string{"--lost-exit-code", "9"}, 9, "was lost", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			both(t, func(t *testing.T, s setup) {
				s.url = etcdURL(t)
				argv := []string{"sh", "-c", "trap 'exit 0' TERM; echo pid $$; while :; do sleep 0.01; done"}
				if c.mode != "" {
					var env string
					env, argv = self(c.mode)
					s.env = []string{env}
				}
				p := s.start(t, append(append([]string{"lock", "x"}, append(c.args, "--")...), argv...)...)
				var pids []int
				fields := []string{"pid "}
				if c.mode == "family" {
					fields = []string{"parent ", "child pid "}
				}
				for _, f := range fields {
					pid, err := strconv.Atoi(p.field(f))
					if err != nil {
						t.Fatal(err)
					}
					pids = append(pids, pid)
				}
				start := time.Now()
				lose(t, testenv.SharedEtcd(t), s.url)
				p.mustEnd(c.code)
				for _, pid := range pids {
					gone(t, pid)
				}
				if took := time.Since(start); c.grace && took < 300*time.Millisecond {
					t.Errorf("KILL came after %v, before the grace was over", took)
				}
				if !s.tty {
					p.readAll()
					if !strings.Contains(p.stderr(), c.says) {
						t.Errorf("it says %q, want %q", p.stderr(), c.says)
					}
				}
			})
		})
	}
}

// TestLostAndIgnored shows the way out.
func TestLostAndIgnored(t *testing.T) {
	both(t, func(t *testing.T, s setup) {
		s.url = etcdURL(t)
		p := s.start(t, "lock", "--on-loss=ignore", "x", "--", "sh", "-c", "echo ready; read line; exit 5")
		p.prints("ready", 1)
		lose(t, testenv.SharedEtcd(t), s.url)
		if s.tty {
			p.prints("was lost while the command runs", 1)
			_, _ = p.tty.WriteString("go\n")
		} else {
			p.complains("was lost while the command runs")
			_ = p.in.Close()
		}
		p.mustEnd(5)
	})
}

// TestLostToSilence stops the only server: the command has ended before its
// session has, which is when the next could get the lock.
func TestLostToSilence(t *testing.T) {
	t.Parallel()
	c := testenv.Etcd(t)
	s := setup{url: "etcd://" + c.Endpoints()[0] + "/x?ttl=2s"}
	p := s.start(t, "lock", "x", "--", "sh", "-c", "echo ready; exec sleep 60")
	p.prints("ready", 1)
	start := time.Now()
	c.Stop(0)
	p.complains("was lost")
	// The release is tried for a while, and is not what this is about.
	c.Cont(0)
	p.mustEnd(79)
	if took := time.Since(start); took > 2*time.Second+patience/6 {
		t.Errorf("it took %v with a ttl of 2s", took)
	}
}

// TestFinishedAsItWasLost shows that a command that has ended well while its
// lock was lost is no success.
func TestFinishedAsItWasLost(t *testing.T) {
	t.Parallel()
	s := setup{url: etcdURL(t)}
	p := s.start(t, "lock", "x", "--", "sh", "-c", "trap '' TERM; echo ready; read line; exit 0")
	p.prints("ready", 1)
	lose(t, testenv.SharedEtcd(t), s.url)
	p.complains("was lost")
	_ = p.in.Close()
	p.mustEnd(79)
}

// TestRemoved is the same where the service cannot tell before it is asked.
func TestRemoved(t *testing.T) {
	t.Parallel()
	s := setup{url: etcdURL(t)}
	p := s.start(t, "lock", "x", "--", "sh", "-c", "echo ready; read line; exit 0")
	p.prints("ready", 1)
	if _, err := testenv.SharedEtcd(t).Ctl("del", "--prefix", prefix(s.url)); err != nil {
		t.Fatal(err)
	}
	_ = p.in.Close()
	p.mustEnd(79)
}

// TestSocketRemoved takes away what the processes of a host agree by.
func TestSocketRemoved(t *testing.T) {
	t.Parallel()
	s := setup{url: serviceURL(t)}
	p := s.start(t, "lock", "x", "--", "sh", "-c", "echo ready; exec sleep 60")
	p.prints("ready", 1)
	path := strings.TrimPrefix(s.url, "socket://")
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	p.mustEnd(79)
}

// TestLostUnheard has nobody who reads what coord says about it.
func TestLostUnheard(t *testing.T) {
	t.Parallel()
	url := etcdURL(t)
	p := setup{url: url}.startCommand(t, shell("exec 3>&1; { "+coordBinary+
		" lock x -- sh -c 'exec 2>/dev/null; trap \"echo told >&3; exit 0\" TERM; echo ready >&3; while :; do sleep 0.01; done'; echo status $? >&3; } 2>&1 | true"))
	p.prints("ready", 1)
	lose(t, testenv.SharedEtcd(t), url)
	if got := p.field("status "); got != "79" {
		t.Errorf("status %s, want 79", got)
	}
	p.prints("told", 1)
}

// TestBlips interrupts the network and the server for less than the session
// lasts: that costs nobody a lock.
func TestBlips(t *testing.T) {
	t.Parallel()
	c := testenv.Etcd(t)
	proxy := testenv.NewProxy(t, "tcp", c.Endpoints()[0])
	url := "etcd://" + proxy.Addr() + "/x?ttl=5s"
	s := setup{url: url}
	const script = "echo token $COORD_TOKEN; read line; exit 4"
	p := s.start(t, "lock", "x", "--", "sh", "-c", script)
	token := p.field("token ")
	next := s.start(t, "lock", "x", "--", "sh", "-c", script)
	awaitLine(t, observer(t, "etcd://"+c.Endpoints()[0]+"/x"), "x", length(2))
	for range 3 {
		proxy.Cut()
		time.Sleep(time.Second)
		proxy.Heal()
	}
	c.Kill(0)
	c.Restart(0)
	if next.stdout() != "" {
		t.Error("the next one has it")
	}
	_ = p.in.Close()
	p.mustEnd(4)
	if got := next.field("token "); got == token {
		t.Errorf("both had token %s", got)
	}
	_ = next.in.Close()
	next.mustEnd(4)
}
