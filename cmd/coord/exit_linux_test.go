package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExitStatus shows each status, in a terminal and without one.
func TestExitStatus(t *testing.T) {
	const dead = "etcd://127.0.0.1:1/x?dial_timeout=200ms"
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("exit 9\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	ran := []string{"--", "sh", "-c", "touch ran"}
	for _, c := range []struct {
		name string
		code int
		url  string
		args []string
		says string
	}{
		{"success", 0, "", []string{"lock", "free", "--", "true"}, ""},
		{"failure", 1, "", []string{"lock", "free", "--", "false"}, ""},
		{"seven", 7, "", []string{"lock", "free", "--", "sh", "-c", "exit 7"}, ""},
		{"255", 255, "", []string{"lock", "free", "--", "sh", "-c", "exit 255"}, ""},
		{"flags between", 7, "", []string{"lock", "-w", "5", "free", "--try=false", "--", "sh", "-c", "exit 7"}, ""},
		{"TERM", 143, "", []string{"lock", "free", "--", "sh", "-c", "kill -TERM $$"}, ""},
		{"KILL", 137, "", []string{"lock", "free", "--", "sh", "-c", "kill -KILL $$"}, ""},
		{"SEGV", 139, "", []string{"lock", "free", "--", "sh", "-c", "kill -SEGV $$"}, ""},
		{"no such command", 127, "", []string{"lock", "free", "--", "no-such-command"}, "no-such-command"},
		{"no such file", 127, "", []string{"lock", "free", "--", "/no/such/file"}, "/no/such/file"},
		{"not executable", 126, "", []string{"lock", "free", "--", "/etc/passwd"}, "permission denied"},
		{"a directory", 126, "", []string{"lock", "free", "--", "/tmp"}, "directory"},
		{"script without an interpreter", 9, "", []string{"lock", "free", "--", script}, ""},
		{"busy", 75, "", append([]string{"lock", "--try", "busy"}, ran...), "is not free"},
		{"busy for a reader", 75, "", append([]string{"lock", "-n", "-s", "busy"}, ran...), "is not free"},
		{"busy until timeout", 75, "", append([]string{"lock", "--timeout", "300ms", "busy"}, ran...), "within 300ms"},
		{"busy, as one likes", 0, "", append([]string{"lock", "-n", "-E", "0", "busy"}, ran...), "is not free"},
		{"busy leader", 75, "", append([]string{"elect", "-n", "busy"}, ran...), "is not free"},
		{"alone at a barrier", 75, "", append([]string{"barrier", "-p", "2", "-w", "0.3", "lonely"}, ran...), "within 300ms"},
		{"no service", 69, dead, append([]string{"lock", "free"}, ran...), "service unavailable"},
		{"no service within timeout", 69, "etcd://127.0.0.1:1/x", append([]string{"lock", "-w", "0.2", "free"}, ran...), "no connection"},
		{"bad URL", 64, "etdc://127.0.0.1", append([]string{"lock", "free"}, ran...), `did you mean "etcd"`},
		{"bad parameter", 64, "memory://?ttl=1s", append([]string{"lock", "free"}, ran...), "unknown parameter ttl"},
		{"bad flag", 64, "", append([]string{"lock", "--bogus", "free"}, ran...), "unknown flag: --bogus"},
		{"bad time", 64, "", append([]string{"lock", "-w", "soon", "free"}, ran...), `as in "10" (seconds)`},
		{"bad name", 64, "", append([]string{"lock", "../x"}, ran...), `".."`},
		{"no command", 64, "", []string{"lock", "free"}, "no command to run"},
		{"no name", 64, "", []string{"lock", "--", "true"}, "one name before --"},
		{"no dashes", 64, "", []string{"lock", "free", "true"}, "put -- before the command"},
		{"unknown command", 64, "", []string{"lcok"}, "unknown command"},
		{"permits without a limit", 64, "", append([]string{"lock", "--permits", "1", "free"}, ran...), "--limit"},
		{"too many permits", 64, "", append([]string{"lock", "--permits", "3", "--limit", "2", "free"}, ran...), "there are only 2"},
		{"lost as a success", 64, "", append([]string{"lock", "--lost-exit-code", "0", "free"}, ran...), "1 to 255"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			both(t, func(t *testing.T, s setup) {
				s.url = c.url
				if s.url == "" {
					s.url = serviceURL(t)
				}
				if strings.Contains(c.name, "busy") {
					cl := client(t, s.url)
					if _, err := cl.Locker("busy").Lock(testContext(t)); err != nil {
						t.Fatal(err)
					}
					if _, err := cl.Election("busy").Campaign(testContext(t), nil); err != nil {
						t.Fatal(err)
					}
				}
				p := s.start(t, c.args...)
				p.mustEnd(c.code)
				if !s.tty {
					p.readAll()
				}
				if c.says != "" {
					if s.tty {
						p.prints(c.says, 1)
					} else if !strings.Contains(p.stderr(), c.says) || strings.Count(p.stderr(), "\n") != 1 {
						t.Errorf("it says %q, want one line with %q", p.stderr(), c.says)
					}
				}
				if _, err := os.Stat(filepath.Join(s.dir, "ran")); err == nil {
					t.Error("the command was started")
				}
			})
		})
	}
}
