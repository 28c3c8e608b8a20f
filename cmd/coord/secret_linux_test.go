package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gocoord/coord/internal/testenv"
)

// TestSecrets uses a password with every odd character against a real server,
// and looks for its pieces wherever they could have got.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const (
		password = "S3cr#%@/:tW0rd"
		encoded  = "S3cr%23%25%40%2F%3AtW0rd"
	)
	c := testenv.Etcd(t, testenv.Auth("worker", password, 60))
	url := "etcd://worker:" + encoded + "@" + c.Endpoints()[0] + "/jobs"
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte(url+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	show := []string{"sh", "-c", "env; tr '\\0' '\\n' </proc/$PPID/cmdline; echo end; read line"}
	for _, way := range []struct {
		name string
		s    setup
		args []string
		kept bool // the command may know it
	}{
		{"environment", setup{url: url}, nil, false},
		{"file", setup{}, []string{"--url-file", file}, false},
		{"file beside an environment", setup{url: url}, []string{"--url-file", file}, false},
		{"asked for", setup{url: url}, []string{"--pass-url"}, true},
	} {
		t.Run(way.name, func(t *testing.T) {
			args := append(append([]string{"lock", "--verbose", "x"}, way.args...), append([]string{"--"}, show...)...)
			p := way.s.start(t, args...)
			out := p.prints("\nend\n", 1)
			if !strings.Contains(out, "COORD_TOKEN=") {
				t.Errorf("no token in %s", out)
			}
			_ = p.in.Close()
			p.ends()
			if known := strings.Contains(out, encoded); known != way.kept {
				t.Errorf("the command's environment has the password: %v, want %v", known, way.kept)
			}
			if !way.kept {
				free(t, out)
			}
			free(t, p.stderr())
		})
	}
	t.Run("wrong URLs", func(t *testing.T) {
		for _, url := range []string{
			"etcd://worker:S3crtW0rd@127.0.0.1:1/x?dial_timeout=100ms",
			"etcd://worker:S3crtW0rd@127.0.0.1:x/x",
			"etcd://worker:S3cr%zztW0rd@127.0.0.1/x",
			"etcd://worker:S3cr#tW0rd@127.0.0.1/x",
			"etcd://worker:S3cr/tW0rd@127.0.0.1/x",
			"etcd://worker:S3cr@tW0rd@127.0.0.1/x",
			"etcd://worker:S3crtW0rd@127.0.0.1/x\nmore",
			"etdc://worker:S3crtW0rd@127.0.0.1/x",
			"etcd://worker:S3crtW0rd@127.0 .0.1/x",
			"etcd://127.0.0.1/x?password=S3crtW0rd",
			"worker:S3crtW0rd@127.0.0.1",
		} {
			for _, args := range [][]string{
				{"lock", "-v", "x", "--", "true"}, {"doctor", "-v"}, {"doctor", "--json"}, {"status", "-v", "x"}, {"serve"},
			} {
				p := setup{url: url}.start(t, args...)
				if p.ends() == 0 {
					t.Errorf("%q is taken", url)
				}
				p.readAll()
				free(t, p.stdout())
				free(t, p.stderr())
			}
		}
	})
	t.Run("wrong password", func(t *testing.T) {
		p := setup{url: strings.Replace(url, "tW0rd", "tW0rdtW0rd", 1)}.start(t, "lock", "-v", "x", "--", "true")
		p.mustEnd(69)
		p.readAll()
		free(t, p.stderr())
	})
	t.Run("a good one is decoded exactly", func(t *testing.T) {
		p := setup{url: url}.start(t, "doctor")
		p.mustEnd(0)
		p.readAll()
		free(t, p.stdout())
	})
}

// free reports pieces of the password.
func free(t *testing.T, text string) {
	t.Helper()
	for _, piece := range []string{"S3cr", "tW0r", "W0rd", "#%@/"} {
		if strings.Contains(text, piece) {
			t.Errorf("%q is in %s", piece, fmt.Sprintf("%.2000s", text))
		}
	}
}
