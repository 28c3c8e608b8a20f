// Package drivertest has what the tests of drivers for services across a
// network share: calls that have to succeed or to wait, processes that are
// stopped and killed, and clients behind proxies for the conformance suite.
package drivertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gocoord/coord/backend"
)

// Patience is for how long a test waits for what has to happen.
const Patience = 20 * time.Second

// Context ends after Patience.
func Context(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	tb.Cleanup(cancel)
	return ctx
}

var places atomic.Int64

// NewPlace returns a place that no other test uses.
func NewPlace(kind backend.Kind) backend.Place {
	return backend.Place{Kind: kind, Name: fmt.Sprintf("place-%d-%d", os.Getpid(), places.Add(1))}
}

// TryOpen makes a client, whose type is that of its driver.
func TryOpen[B backend.Backend](ctx context.Context, url string) (client B, err error) {
	open, err := backend.Parse(url)
	if err != nil {
		return client, err
	}
	b, err := open(ctx)
	if err != nil {
		return client, err
	}
	return b.(B), nil
}

// Open makes a client that is closed with the test.
func Open[B backend.Backend](tb testing.TB, url string) B {
	tb.Helper()
	b, err := TryOpen[B](Context(tb), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = b.Close() })
	return b
}

// Acquire wants the claim to be admitted.
func Acquire(tb testing.TB, b backend.Backend, p backend.Place, c backend.Claim) backend.Lease {
	tb.Helper()
	l, err := b.Acquire(Context(tb), p, c)
	if err != nil {
		tb.Fatalf("Acquire: %v", err)
	}
	return l
}

// An Acquiring is an Acquire in progress.
type Acquiring struct {
	tb     testing.TB
	Cancel context.CancelFunc
	Done   <-chan struct{} // closed when it has returned
	Lease  backend.Lease   // once it has
	Err    error
}

// Go begins an Acquire.
func Go(tb testing.TB, b backend.Backend, p backend.Place, c backend.Claim) *Acquiring {
	ctx, cancel := context.WithTimeout(context.Background(), 2*Patience)
	done := make(chan struct{})
	a := &Acquiring{tb: tb, Cancel: cancel, Done: done}
	tb.Cleanup(cancel)
	go func() {
		defer close(done)
		a.Lease, a.Err = b.Acquire(ctx, p, c)
	}()
	return a
}

// Wait returns what the Acquire does.
func (a *Acquiring) Wait() (backend.Lease, error) {
	a.tb.Helper()
	select {
	case <-a.Done:
		return a.Lease, a.Err
	case <-time.After(Patience):
		a.tb.Fatal("Acquire does not return")
		return nil, nil
	}
}

// Must wants it to be admitted.
func (a *Acquiring) Must() backend.Lease {
	a.tb.Helper()
	l, err := a.Wait()
	if err != nil {
		a.tb.Fatalf("Acquire: %v", err)
	}
	return l
}

// Waiting wants it not to return for a while.
func (a *Acquiring) Waiting(d time.Duration) {
	a.tb.Helper()
	select {
	case <-a.Done:
		a.tb.Fatalf("Acquire returned, lease %v, error %v; want it to wait", a.Lease != nil, a.Err)
	case <-time.After(d):
	}
}

// Release wants the lease to be released.
func Release(tb testing.TB, l backend.Lease) {
	tb.Helper()
	if err := l.Release(Context(tb)); err != nil {
		tb.Fatalf("Release: %v", err)
	}
}

// Roster waits until the line of p has n entries.
func Roster(tb testing.TB, b backend.Backend, p backend.Place, n int) backend.Roster {
	tb.Helper()
	ctx := Context(tb)
	var r backend.Roster
	var err error
	for {
		if r, err = b.Observe(ctx, p, r.Version); err != nil {
			tb.Fatalf("Observe, waiting for %d entries and seeing %d: %v", n, len(r.Entries), err)
		}
		if len(r.Entries) == n {
			return r
		}
	}
}

// WantErr wants err to be or to wrap another.
func WantErr(tb testing.TB, err, want error) {
	tb.Helper()
	if !errors.Is(err, want) {
		tb.Fatalf("error %v, want %v", err, want)
	}
}

// Ended waits for the end of a lease.
func Ended(tb testing.TB, l backend.Lease, within time.Duration) {
	tb.Helper()
	select {
	case <-l.Done():
	case <-time.After(within):
		tb.Fatalf("Done did not close within %v", within)
	}
}

// Claims.
var (
	Exclusive = backend.Claim{Mode: backend.Exclusive, Owner: "test"}
	Shared    = backend.Claim{Mode: backend.Shared, Owner: "test"}
	Presence  = backend.Claim{Mode: backend.Presence}
	NoWait    = backend.Claim{Mode: backend.Exclusive, NoWait: true}
)
