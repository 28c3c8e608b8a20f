package conformance

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

var errEnded = errors.New("the check has ended")

// spins is how long a check may be busy by the real clock when its own stands
// still, as it does in a bubble in which somebody always has something to do.
const spins = 2 * time.Minute

// judge runs a check and returns the verdict.
func (h Harness) judge(t *testing.T, c check) (r result) {
	if why := c.unmet(h); why != "" {
		return result{skipped: why}
	}
	if !h.Virtual {
		return newT(t, h, c).run()
	}
	watchdog := time.AfterFunc(spins, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("conformance: check %s is busy for %v of real time, without a pause", c.name, spins))
	})
	defer watchdog.Stop()
	defer func() {
		// The bubble's complaint about goroutines that stay blocked.
		if stuck := recover(); stuck != nil {
			r.failures = append(r.failures, fmt.Sprintf("goroutines stay after everything was closed: %v\n%s", stuck, stacks()))
		}
	}()
	synctest.Test(t, func(t *testing.T) { r = newT(t, h, c).run() })
	return r
}

// run runs the check under its watchdog.
func (t *T) run() result {
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		defer t.noPanic()
		defer t.finish()
		defer t.noPanic()
		t.check.fn(t)
	}()
	if !within(t.patience(), finished) {
		t.Errorf("the check did not end within %v; all goroutines:\n%s", t.patience(), stacks())
		t.end(errEnded)
		for _, c := range t.opened() {
			go c.b.Close()
		}
		within(t.patience()/4, finished)
	}
	return t.verdict()
}

// noPanic is deferred to make a failure of a panic.
func (t *T) noPanic() {
	if p := recover(); p != nil {
		t.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// patience is how long a check may take in all.
func (t *T) patience() time.Duration {
	return time.Minute + 10*t.h.Slack + 8*t.h.Expect.Expiry
}

// finish ends what the check began: first the calls in progress, then the
// clients, then what the harness set up.
func (t *T) finish() {
	t.end(errEnded)
	clients := t.opened()
	for i := len(clients) - 1; i >= 0; i-- {
		clients[i].finish()
	}
	idle := make(chan struct{})
	go func() { t.tasks.Wait(); close(idle) }()
	if !within(t.h.Slack+t.h.Expect.Expiry, idle) {
		t.Errorf("calls did not return within %v of their contexts' end and their clients' Close; all goroutines:\n%s",
			t.h.Slack+t.h.Expect.Expiry, stacks())
	}
	t.cleanup(0)
}

// cleanup calls what was registered with Cleanup, down to the first few.
func (t *T) cleanup(keep int) {
	for {
		t.mu.Lock()
		n := len(t.cleanups)
		if n <= keep {
			t.mu.Unlock()
			return
		}
		f := t.cleanups[n-1]
		t.cleanups = t.cleanups[:n-1]
		t.mu.Unlock()
		f()
	}
}

func (t *T) verdict() result {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	return t.result
}

// within reports whether done is closed before d has passed.
func within(d time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

func stacks() string {
	buf := make([]byte, 256<<10)
	return string(buf[:runtime.Stack(buf, true)])
}
