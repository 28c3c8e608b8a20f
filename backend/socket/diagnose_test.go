//go:build linux || darwin

package socket

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gocoord/coord/backend"
)

// findings are those of b by their subject.
func findings(t *testing.T, b *Backend) map[string]backend.Finding {
	t.Helper()
	all, err := b.Diagnose(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]backend.Finding)
	for _, f := range all {
		out[f.Subject] = f
	}
	return out
}

func TestDiagnose(t *testing.T) {
	path := socketPath(t)
	helper := helping(t, path)
	client := opened(t, path)
	got := findings(t, client)
	if want := fmt.Sprintf("process %d of the user with id %d serves since 2", helper.cmd.Process.Pid, os.Geteuid()); !strings.HasPrefix(got["server"].Detail, want) {
		t.Errorf("the server is %q, want %q…", got["server"].Detail, want)
	}
	if want := fmt.Sprintf("mode 0600, user id %d,", os.Geteuid()); !strings.HasPrefix(got["rights"].Detail, want) {
		t.Errorf("the rights are %q, want %q…", got["rights"].Detail, want)
	}
	if want := fmt.Sprintf("%d bytes, of at most %d", len(path), maxPath); got["path"].Detail != want {
		t.Errorf("the path has %q, want %q", got["path"].Detail, want)
	}
	for subject, f := range got {
		if f.Advice != "" {
			t.Errorf("%s: %s; want no advice", subject, f.Advice)
		}
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if f := findings(t, client)["rights"]; !strings.Contains(f.Advice, "asked for 0600") {
		t.Errorf("with another mode the rights are %+v", f)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Diagnose(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

func TestDiagnoseOfServer(t *testing.T) {
	b := serving(t, socketPath(t))
	if got, want := findings(t, b)["server"].Detail, fmt.Sprintf("this process, %d, serves", os.Getpid()); !strings.HasPrefix(got, want) {
		t.Errorf("the server is %q, want %q…", got, want)
	}
}

// TestPlaces: server and clients list the same, whoever holds.
func TestPlaces(t *testing.T) {
	_, server, client := pair(t)
	acquired(t, server, "b")
	acquired(t, client, "a")
	want := []backend.Place{{Kind: backend.Mutex, Name: "a"}, {Kind: backend.Mutex, Name: "b"}}
	for name, b := range map[string]*Backend{"the server": server, "a client": client} {
		if got, err := b.Places(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s lists %v, %v; want %v", name, got, err, want)
		}
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Places(t.Context()); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("Places after Close: %v, want ErrClosed", err)
	}
}
