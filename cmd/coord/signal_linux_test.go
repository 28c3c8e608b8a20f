package main_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestSignalsArriveOnce sends each signal in each way that there is and counts
// at the command.
func TestSignalsArriveOnce(t *testing.T) {
	env, argv := self("signals")
	type way struct {
		name string
		tty  bool
		flag string // how the command gets the terminal
		send func(p *program, sig syscall.Signal) error
	}
	coordAlone := func(p *program, sig syscall.Signal) error { return syscall.Kill(p.cmd.Process.Pid, sig) }
	group := func(p *program, sig syscall.Signal) error { return syscall.Kill(-p.cmd.Process.Pid, sig) }
	typed := func(p *program, sig syscall.Signal) error {
		keys := map[syscall.Signal]string{syscall.SIGINT: "\x03", syscall.SIGQUIT: "\x1c"}
		_, err := p.tty.WriteString(keys[sig])
		return err
	}
	ways := []way{
		{"to coord", false, "", coordAlone},
		{"to the group", false, "", group},
		{"to coord in a terminal", true, "", coordAlone},
		{"to the group in a terminal", true, "", group},
		{"typed", true, "", typed},
	}
	all := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			sigs := all
			if w.name == "typed" {
				sigs = []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT}
			}
			s := setup{url: serviceURL(t), env: []string{env}, tty: w.tty}
			p := s.start(t, append([]string{"lock", "x", "--"}, argv...)...)
			p.prints("ready", 1)
			for n := range 3 {
				for _, sig := range sigs {
					if err := w.send(p, sig); err != nil {
						t.Fatal(err)
					}
					p.prints(fmt.Sprintf("got %d time %d\n", sig, n+1), 1)
				}
			}
			if w.tty {
				_, _ = p.tty.WriteString("end\n")
			} else {
				_ = p.in.Close()
			}
			p.mustEnd(40 + 3*len(sigs))
		})
	}
}

// TestTypedInScript is the terminal's INT where a script, which is in the same
// group, runs coord: script and command both get it.
func TestTypedInScript(t *testing.T) {
	t.Parallel()
	env, argv := self("signals, then input")
	s := setup{url: serviceURL(t), env: []string{env}, tty: true}
	p := s.startCommand(t, shell("trap 'echo script too' INT; "+coordBinary+" lock x -- "+argv[0]+"; echo status $?"))
	p.prints("ready", 1)
	_, _ = p.tty.WriteString("\x03")
	p.prints("got 2 time 1\n", 1)
	// It asks for the terminal by reading, and gets it.
	_, _ = p.tty.WriteString("line\n")
	p.prints("read line\n", 1)
	_, _ = p.tty.WriteString("end\n")
	if got := p.field("status "); got != "41" {
		t.Errorf("status %s, want 41", got)
	}
	p.prints("script too", 1)
}

// TestTypedToReader is the same where the command has the terminal by then.
func TestTypedToReader(t *testing.T) {
	t.Parallel()
	s := setup{url: serviceURL(t), tty: true}
	p := s.startCommand(t, shell("trap 'echo script too' INT; "+coordBinary+" lock x -- cat; echo status $?"))
	_, _ = p.tty.WriteString("line\n")
	p.prints("line\n", 2) // the echo, and the cat's
	_, _ = p.tty.WriteString("\x03")
	if got := p.field("status "); got != "130" {
		t.Errorf("status %s, want 130", got)
	}
	p.prints("script too", 1)
}

// TestDeadlySignal shows that a signal that ends the command shows in the
// status, and frees the lock.
func TestDeadlySignal(t *testing.T) {
	both(t, func(t *testing.T, s setup) {
		s.url = serviceURL(t)
		c := client(t, s.url)
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1} {
			p := s.start(t, "lock", "x", "--", "sh", "-c", "echo ready; exec sleep 60")
			p.prints("ready", 1)
			p.signal(sig)
			p.mustEnd(128 + int(sig))
			mustBeFree(t, c, "x")
		}
	})
}

// TestSignalWhileWaiting shows that nothing stays in line and nothing is run.
func TestSignalWhileWaiting(t *testing.T) {
	onEach(t, func(t *testing.T, url func(*testing.T) string) {
		both(t, func(t *testing.T, s setup) {
			s.url = url(t)
			b := observer(t, s.url)
			h, err := client(t, s.url).Locker("x").Lock(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
				p := s.start(t, "lock", "x", "--", "touch", "ran")
				awaitLine(t, b, "x", length(2))
				p.signal(syscall.SIGUSR1) // is for a command, and there is none
				p.signal(sig)
				p.mustEnd(128 + int(sig))
				awaitLine(t, b, "x", length(1))
			}
			if err := h.Release(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(s.dir, "ran")); err == nil {
				t.Error("a command was started")
			}
		})
	})
}

// TestSignalRace sends a signal around the moment of the grant: the lock must
// never stay with nobody behind it, and a command that runs must have been
// signalled.
func TestSignalRace(t *testing.T) {
	onEach(t, func(t *testing.T, url func(*testing.T) string) {
		const rounds, lanes = 200, 4
		for lane := range lanes {
			t.Run(strconv.Itoa(lane), func(t *testing.T) {
				t.Parallel()
				s := setup{url: url(t), dir: t.TempDir()}
				c, b := client(t, s.url), observer(t, s.url)
				for n := range rounds / lanes {
					sig := []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT}[n%3]
					name := fmt.Sprintf("x%d", n)
					h, err := c.Locker(name).Lock(testContext(t))
					if err != nil {
						t.Fatal(err)
					}
					p := s.start(t, "lock", name, "--", "sh", "-c", "echo ran; exec sleep 60")
					awaitLine(t, b, name, length(2))
					offset := rand.N(40*time.Millisecond) - 20*time.Millisecond
					var wg sync.WaitGroup
					wg.Go(func() {
						time.Sleep(max(0, -offset))
						if err := h.Release(); err != nil {
							t.Error(err)
						}
					})
					wg.Go(func() {
						time.Sleep(max(0, offset))
						p.signal(sig)
					})
					wg.Wait()
					p.mustEnd(128 + int(sig))
					mustBeFree(t, c, name)
				}
			})
		}
	})
}

// TestSecondSignalDuringRelease shows that impatience does not leave the lock
// behind.
func TestSecondSignalDuringRelease(t *testing.T) {
	t.Parallel()
	s := setup{url: serviceURL(t)}
	c := client(t, s.url)
	for range 20 {
		p := s.start(t, "lock", "x", "--", "sh", "-c", "echo ready; exec sleep 60")
		p.prints("ready", 1)
		for alive(p.cmd.Process.Pid) {
			p.signal(syscall.SIGINT)
		}
		p.mustEnd(130)
		mustBeFree(t, c, "x")
	}
}

// TestIgnoredSignalStaysIgnored is nohup.
func TestIgnoredSignalStaysIgnored(t *testing.T) {
	t.Parallel()
	s := setup{url: serviceURL(t)}
	p := s.startCommand(t, shell("trap '' HUP INT; exec "+coordBinary+" lock x -- sh -c 'echo ready; read line; echo got $line'"))
	p.prints("ready", 1)
	p.signal(syscall.SIGHUP)
	p.signal(syscall.SIGINT)
	_, _ = p.in.Write([]byte("it\n"))
	p.prints("got it", 1)
	p.mustEnd(0)
}

// TestStopAndContinue shows job control without a terminal.
func TestStopAndContinue(t *testing.T) {
	t.Parallel()
	s := setup{url: serviceURL(t)}
	p := s.start(t, "lock", "x", "--", "sh", "-c", "echo pid $$; read line; echo got $line")
	pid, err := strconv.Atoi(p.field("pid "))
	if err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGTSTP)
	awaitState(t, pid, "T")
	_, _ = p.in.Write([]byte("it\n"))
	p.signal(syscall.SIGCONT)
	p.prints("got it", 1)
	p.mustEnd(0)
}

func awaitState(t *testing.T, pid int, state string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if _, rest, _ := strings.Cut(string(stat), ") "); err == nil && strings.HasPrefix(rest, state) {
			return
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("process %d is not in state %s but %q: %v", pid, state, stat, err)
		}
	}
}

// TestGrandchild shows that a process left in the background holds neither the
// lock nor coord, though it has the output open.
func TestGrandchild(t *testing.T) {
	onEach(t, func(t *testing.T, url func(*testing.T) string) {
		both(t, func(t *testing.T, s setup) {
			s.url = url(t)
			p := s.start(t, "lock", "x", "--", "sh", "-c", "trap '' HUP; sleep 61 & echo pid $!; exit 3")
			pid, err := strconv.Atoi(p.field("pid "))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
			p.mustEnd(3)
			mustBeFree(t, client(t, s.url), "x")
			if !alive(pid) {
				t.Error("the process in the background was ended")
			}
		})
	})
}

// TestKilled kills coord: neither the command nor what it started goes on, and
// the lock is free within the session's time.
func TestKilled(t *testing.T) {
	onEach(t, func(t *testing.T, url func(*testing.T) string) {
		env, argv := self("family")
		both(t, func(t *testing.T, s setup) {
			s.url = url(t)
			s.env = []string{env}
			c := client(t, s.url)
			p := s.start(t, append([]string{"lock", "x", "--"}, argv...)...)
			parent, _ := strconv.Atoi(p.field("parent "))
			child, _ := strconv.Atoi(p.field("child pid "))
			p.signal(syscall.SIGKILL)
			gone(t, parent)
			gone(t, child)
			h, err := c.Locker("x").Lock(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Release(); err != nil {
				t.Fatal(err)
			}
		})
	})
}

// TestKilledAndIgnored is the way out of that.
func TestKilledAndIgnored(t *testing.T) {
	t.Parallel()
	s := setup{url: serviceURL(t)}
	p := s.start(t, "lock", "--on-loss=ignore", "x", "--", "sh", "-c", "trap '' HUP; echo pid $$; read line; echo got $line")
	if _, err := strconv.Atoi(p.field("pid ")); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGKILL)
	p.mustEnd(-1)
	_, _ = p.in.Write([]byte("on\n"))
	p.prints("got on\n", 1)
}
