package conformance

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/gocoord/coord/backend"
)

// A T is one run of one check. It is a testing.TB that keeps its verdict to
// itself, so that a failure can also be what is expected: of a check that is
// Known to fail, or of a backend that lies.
type T struct {
	testing.TB // gives the private method, and what is not about the verdict

	h     Harness
	check check
	name  string // of this run's places
	ctx   context.Context
	end   context.CancelCauseFunc

	tasks sync.WaitGroup // what begin and goes started

	mu       sync.Mutex
	result   result
	cleanups []func()
	clients  []*client
	ended    bool // the verdict is given: what comes later is not heard
}

// A result is the verdict on one run.
type result struct {
	failures []string
	skipped  string
	logs     []string
}

func newT(tb testing.TB, h Harness, c check) *T {
	t := &T{TB: tb, h: h, check: c}
	t.name = "conformance/" + c.name + "/" + rand.Text()[:8]
	t.ctx, t.end = context.WithCancelCause(context.Background())
	return t
}

// Name returns a name that no other run has.
func (t *T) Name() string { return t.name }

// Context returns a context that ends with the check.
func (t *T) Context() context.Context { return t.ctx }

// Helper does nothing: a message bears the first line that is not a method.
func (t *T) Helper() {}

// Cleanup registers what is called after the check, last one first.
func (t *T) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

// Log and the like do what they do in package testing.
func (t *T) Log(args ...any) { t.log(strings.TrimSuffix(fmt.Sprintln(args...), "\n")) }

// Logf formats and logs.
func (t *T) Logf(format string, args ...any) { t.log(fmt.Sprintf(format, args...)) }

func (t *T) log(text string) {
	text = where() + text
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.result.logs = append(t.result.logs, text)
	}
}

// Error logs and fails.
func (t *T) Error(args ...any) { t.fail(strings.TrimSuffix(fmt.Sprintln(args...), "\n")) }

// Errorf formats, logs and fails.
func (t *T) Errorf(format string, args ...any) { t.fail(fmt.Sprintf(format, args...)) }

// Fatal fails and ends the calling goroutine.
func (t *T) Fatal(args ...any) {
	t.fail(strings.TrimSuffix(fmt.Sprintln(args...), "\n"))
	runtime.Goexit()
}

// Fatalf formats, fails and ends the calling goroutine.
func (t *T) Fatalf(format string, args ...any) {
	t.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

func (t *T) fail(text string) {
	text = where() + text
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.result.failures = append(t.result.failures, text)
	}
}

// Fail marks the check as failed.
func (t *T) Fail() { t.fail("failed") }

// FailNow fails and ends the calling goroutine.
func (t *T) FailNow() {
	t.fail("failed")
	runtime.Goexit()
}

// Failed reports whether the check has failed.
func (t *T) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.result.failures) > 0
}

// Skip logs why the check cannot run, and ends it.
func (t *T) Skip(args ...any) { t.skip(strings.TrimSuffix(fmt.Sprintln(args...), "\n")) }

// Skipf is Skip with a format.
func (t *T) Skipf(format string, args ...any) { t.skip(fmt.Sprintf(format, args...)) }

// SkipNow is Skip without a reason, which a check must have.
func (t *T) SkipNow() { t.skip("skipped without a reason") }

func (t *T) skip(why string) {
	t.mu.Lock()
	t.result.skipped = why
	t.mu.Unlock()
	runtime.Goexit()
}

// Skipped reports whether Skip was called.
func (t *T) Skipped() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.result.skipped != ""
}

// where is the position in the check that called, past the helpers, which are
// methods.
func where() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		_, function, _ := strings.Cut(f.Function, "/conformance.")
		if function != "" && !strings.HasPrefix(function, "(*") && function != "where" || !more {
			return fmt.Sprintf("%s:%d: ", filepath.Base(f.File), f.Line)
		}
	}
}

// place returns the check's place of a kind.
func (t *T) place(k backend.Kind) backend.Place { return backend.Place{Kind: k, Name: t.name} }
