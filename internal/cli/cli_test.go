package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
	_ "github.com/gocoord/coord/backend/all"
)

func TestMain(m *testing.M) {
	// A test binary that runs commands is its own guard, too.
	if len(os.Args) == 2 && os.Args[1] == guardCommand {
		os.Exit(guardMain())
	}
	os.Exit(m.Run())
}

// run runs the program inside this process.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = Main(args, &out, &errOut)
	return code, out.String(), errOut.String()
}

func TestInProcess(t *testing.T) {
	const url = "memory://cli-test"
	ctx := context.Background()
	c, err := coord.Open(ctx, url, coord.WithOwner("me\x1b[31m"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Locker("a").Lock(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Semaphore("b", 3).Acquire(ctx, 2); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code   int
		args   []string
		prints string
	}{
		{0, []string{"status"}, "semaphore \"b\"\n"},
		{0, []string{"status", "a"}, `"me\x1b[31m"`}, // and not the raw one
		{0, []string{"status", "b"}, "2 of 3"},
		{0, []string{"status", "--json", "a"}, `"state":"holds","mode":"exclusive"`},
		{0, []string{"status", "none"}, `"none": nobody holds it`},
		{0, []string{"status", "-k", "election", "none"}, `election "none": nobody holds it`},
		{1, []string{"status", "-q", "none"}, ""},
		{0, []string{"status", "-q", "a"}, ""},
		{64, []string{"status", "-k", "lok", "a"}, `--kind=lok`},
		{64, []string{"status", "a", "b"}, "one name at most"},
		{64, []string{"status", "--watch"}, "need a name"},
		{64, []string{"status", "a/"}, "empty part"},
		{75, []string{"lock", "-n", "a", "--", "true"}, `lock "a" is not free`},
		{64, []string{"lock", "-n", "-w", "1", "a", "--", "true"}, "give one"},
		{64, []string{"lock", "--shared", "--elect", "a", "--", "true"}, "exclude each other"},
		{64, []string{"lock", "--data", "x", "a", "--", "true"}, "--elect"},
		{64, []string{"lock", "--on-loss", "x", "a", "--", "true"}, "terminate or ignore"},
		{64, []string{"lock", "-E", "256", "a", "--", "true"}, "0 to 255"},
		{64, []string{"lock", "-w", "-1s", "a", "--", "true"}, "above zero"},
		{64, []string{"lock", "-n", "--limit", "4", "b", "--", "true"}, "limit 4 here"},
		{64, []string{"barrier", "x"}, "--parties"},
		{64, []string{"barrier", "-p", "0", "x"}, "want at least 1"},
		{0, []string{"barrier", "-p", "1", "x"}, ""},
		{64, []string{"elect", "x"}, "--leader"},
		{1, []string{"elect", "--leader", "x"}, "nobody leads"},
		{1, []string{"elect", "--leader", "--json", "x"}, `"leader":null`},
		{0, []string{"doctor"}, "✓ register"},
		{0, []string{"doctor", "memory://"}, "! scope"},
		{1, []string{"doctor", "nope://"}, "✗ URL"},
		{64, []string{"serve"}, "not served by coord"},
		{0, []string{"urls", "memory"}, "memory://[name]"},
		{64, []string{"urls", "nope"}, "unknown scheme"},
		{0, []string{"version"}, "coord "},
		{0, []string{"--version"}, "coord "},
		{0, []string{"help", "lock"}, "Exit status"},
		{0, []string{"completion", "zsh"}, "compdef"},
		{0, []string{}, "Available Commands"},
		{64, []string{"stauts"}, `did you mean "status"?`},
		{64, []string{"--url-file", "/no/such/file", "status"}, "no such file"},
		{64, []string{"version", "x"}, "no arguments"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			t.Setenv(envURL, url)
			code, out, errOut := run(t, c.args...)
			if code != c.code || !strings.Contains(out+errOut, c.prints) {
				t.Errorf("status %d, want %d; it prints\n%s%s", code, c.code, out, errOut)
			}
			if strings.Contains(out, "\x1b") {
				t.Errorf("what others wrote steers the terminal: %q", out)
			}
		})
	}
}

// TestDocs shows that docs/cli.md has every command, and the help or that
// document every flag and status.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(text)
	for _, cmd := range (&app{}).root().Commands() {
		if cmd.Name() == "help" {
			continue
		}
		if !strings.Contains(doc, "coord "+cmd.Name()) {
			t.Errorf("docs/cli.md lacks coord %s", cmd.Name())
		}
		for _, name := range flags(cmd) {
			if !strings.Contains(doc+cmd.Long+cmd.Example, "--"+name) {
				t.Errorf("neither docs/cli.md nor the help of coord %s explains --%s", cmd.Name(), name)
			}
		}
		if cmd.Long == "" && cmd.Name() != "version" {
			t.Errorf("coord %s has no manual", cmd.Name())
		}
		for n, line := range strings.Split(cmd.Long, "\n") {
			if len([]rune(line)) > 86 {
				t.Errorf("line %d of the help of coord %s is %d wide", n+1, cmd.Name(), len([]rune(line)))
			}
		}
	}
	for _, code := range []int{exitUsage, exitUnavailable, exitSystem, exitBusy, exitLost, exitCannotRun, exitNotFound} {
		if !strings.Contains(doc, fmt.Sprint(code)) || !strings.Contains(lockLong, fmt.Sprint(code)) {
			t.Errorf("docs/cli.md or the help of coord lock lacks status %d", code)
		}
	}
}

// flags lists the flags of a command itself.
func flags(cmd *cobra.Command) []string {
	var names []string
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			names = append(names, f.Name)
		}
	})
	return names
}

func TestSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10": 10 * time.Second, "0.5": 500 * time.Millisecond, "2m": 2 * time.Minute, "1e3": 1000 * time.Second,
		"0": 0, "-1": 0, "": 0, "1 s": 0, "NaN": 0, "Inf": 0, "1e300": 0,
	} {
		var s seconds
		if err := s.Set(text); (err == nil) != (want > 0) || time.Duration(s) != want {
			t.Errorf("%q is %v, %v; want %v", text, time.Duration(s), err, want)
		}
	}
}

func TestStatusOfErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{backend.ErrInvalid, 64},
		{backend.ErrMismatch, 64},
		{backend.ErrBusy, 75},
		{context.DeadlineExceeded, 75},
		{fmt.Errorf("%w: %w", backend.ErrUnavailable, context.DeadlineExceeded), 69},
		{backend.ErrUnsupported, 69},
		{backend.ErrClosed, 69},
		{&exitError{code: 3}, 3},
	} {
		if got := status(c.err); got != c.want {
			t.Errorf("%v has status %d, want %d", c.err, got, c.want)
		}
	}
}
