//go:build linux || darwin

package socket

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/testenv"
)

// TestOpenBeforeStoppedServer says which process to look at.
func TestOpenBeforeStoppedServer(t *testing.T) {
	path := socketPath(t)
	p := helping(t, path)
	p.signal(syscall.SIGSTOP)
	defer p.signal(syscall.SIGCONT)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	b, err := Open(ctx, path)
	if err == nil {
		b.Close()
	}
	want := fmt.Sprintf("process %d, does not answer: is it stopped?", p.pid())
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), want) {
		t.Errorf("Open: %v; want a time-out that says: %s", err, want)
	}
}

// TestWatchGivenUp leaves nothing on the server when it answers again.
func TestWatchGivenUp(t *testing.T) {
	defer func(d time.Duration) { patience = d }(patience)
	patience = 400 * time.Millisecond
	path := socketPath(t)
	s := serving(t, path)
	l, err := s.Acquire(t.Context(), mutex("a"), exclusive)
	if err != nil {
		t.Fatal(err)
	}
	p := testenv.NewProxy(t, "unix", path)
	c, err := Open(t.Context(), path, func(c *config) { c.via = p.Addr() })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	gone := make(chan error, 1)
	go func() { gone <- c.Gone(t.Context(), mutex("a"), l.ID()) }()
	awaitWatches(t, s, 1)
	p.Mute()
	if err := <-gone; !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("Gone: %v; want ErrUnavailable", err)
	}
	p.Heal()
	awaitWatches(t, s, 0)
}

// awaitWatches waits until the server keeps so many watches of others.
func awaitWatches(t *testing.T, b *Backend, want int) {
	t.Helper()
	got := -1
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		got = 0
		s := b.server.Load()
		s.mu.Lock()
		for _, sess := range s.sessions {
			sess.mu.Lock()
			got += len(sess.watches)
			sess.mu.Unlock()
		}
		s.mu.Unlock()
		if got == want {
			return
		}
	}
	t.Fatalf("%d watches, want %d", got, want)
}
