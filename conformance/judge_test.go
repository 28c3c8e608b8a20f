package conformance

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gocoord/coord/backend"
)

// TestJudge has checks that go wrong in all ways that a check can.
func TestJudge(t *testing.T) {
	for _, row := range []struct {
		name string
		need []need
		fn   func(*T)
		want string // in the first failure, or in the reason to skip
		skip bool
	}{
		{name: "Passes", fn: func(t *T) { t.open() }},
		{name: "Fails", fn: func(t *T) { t.Errorf("%d failures", 1) }, want: "judge_test.go:"},
		{name: "Panics", fn: func(*T) { panic("oops") }, want: "panic: oops"},
		{name: "PanicsInCleanup", fn: func(t *T) { t.Cleanup(func() { panic("late") }) }, want: "panic: late"},
		{name: "PanicsInACall", fn: func(t *T) {
			beginError(t, "a call", func(context.Context) error { panic("in a call") }).get()
		}, want: "panic: in a call"},
		{name: "Hangs", fn: func(t *T) { <-make(chan int) }, want: "did not end within"},
		{name: "HangsInACall", fn: func(t *T) {
			c := t.open()
			_ = c.take("the holder", t.place(backend.Mutex), exclusiveClaim)
			_, _ = c.b.Acquire(context.Background(), t.place(backend.Mutex), exclusiveClaim)
		}, want: "did not end within"},
		{name: "LeavesACall", fn: func(t *T) { t.tasks.Go(func() { <-make(chan int) }) }, want: "calls did not return"},
		{name: "LeavesAGoroutine", fn: func(*T) { go func() { <-make(chan int) }() }, want: "goroutines stay"},
		{name: "Skips", fn: func(t *T) { t.Skip("no reason") }, want: "no reason", skip: true},
		{name: "NotThere", need: []need{crash}, fn: func(t *T) { t.Errorf("runs") }, want: "the harness has no Crash", skip: true},
		{name: "NotClaimed", need: []need{kind(99)}, fn: func(t *T) { t.Errorf("runs") }, want: "does not claim", skip: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := onMemory().withDefaults().judge(t, check{name: row.name, why: "none", need: row.need, fn: row.fn})
			got := r.skipped
			if !row.skip {
				got = strings.Join(r.failures, "\n")
			}
			if row.want == "" && got != "" || !strings.Contains(got, row.want) || row.skip && len(r.failures) > 0 {
				t.Errorf("the verdict is %.300q; want %q in it", got, row.want)
			}
		})
	}
}

// A kind that is claimed and not there is a failure, not a reason to skip.
func TestUndeclared(t *testing.T) {
	h := liars(func(l *liar) {
		l.acquire = func(*liar, context.Context, backend.Place, backend.Claim) (backend.Lease, error) {
			return nil, backend.ErrUnsupported
		}
	}).withDefaults()
	for _, c := range lockChecks()[:3] {
		if r := h.judge(t, c); len(r.failures) == 0 {
			t.Errorf("%s passes on a backend that answers %q", c.name, errors.ErrUnsupported)
		}
	}
}

// Names are for ever: Known lists and -run patterns refer to them.
func TestNames(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range checks() {
		if seen[c.name] || strings.Count(c.name, "/") != 1 || strings.ContainsAny(c.name, " _") {
			t.Errorf("the check %q: want Subject/Name, once", c.name)
		}
		seen[c.name] = true
		if c.why == "" || c.fn == nil {
			t.Errorf("the check %q says no promise or does nothing", c.name)
		}
	}
	t.Logf("%d checks", len(seen))
}
