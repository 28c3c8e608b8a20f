//go:build linux || darwin

package socket

import (
	"context"
	"errors"
	"os"
	"testing"
)

// descriptors is how many files this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestDescriptors: clients that come and go, with a server's end, a wait that
// was given up and a crash among them, leave no file open.
func TestDescriptors(t *testing.T) {
	before := descriptors(t)
	path := socketPath(t)
	for range 10 {
		server := serving(t, path)
		client, last := opened(t, path), opened(t, path)
		held := acquired(t, client, "a")
		ctx, cancel := context.WithCancel(t.Context())
		given := make(chan error, 1)
		go func() {
			_, err := last.Acquire(ctx, mutex("a"), exclusive)
			given <- err
		}()
		inLine(t, server, "a", 2)
		cancel()
		if err := <-given; !errors.Is(err, context.Canceled) {
			t.Fatalf("the wait that was given up ended with %v", err)
		}
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		client.crash()
		acquired(t, last, "a")
		if err := last.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d files are open, and before there were %d", after, before)
	}
}
