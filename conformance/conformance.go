// Package conformance checks that a backend keeps the promises of package
// backend, and that everything in package coord keeps its own on top of it.
//
// A driver's test is a few lines:
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, conformance.Harness{
//			Open:   func(tb testing.TB) backend.Backend { ... },
//			Expect: backend.Info{Name: "mine", Scope: backend.Network, FIFO: true, ...},
//		})
//	}
//
// Each check is a subtest with a stable name, uses places that nothing used
// before, and prints the promise that was broken when it fails. A check that
// cannot run says why it was skipped. A check that does not end is stopped by
// a watchdog, which prints all goroutines.
//
// The suite waits for events and not for time to pass, so a failure is a
// failure. The reverse does not hold: races want many runs, so run the suite
// with -race and -count.
package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/gocoord/coord/backend"
)

// A Harness tells the suite how to handle a backend. Only Open and Expect are
// required; a check that needs another field is skipped without it.
type Harness struct {
	// Open returns one more client of the service, the same service for all
	// calls with the same tb. The suite closes it. A fault of the set-up is
	// reported to tb.
	Open func(tb testing.TB) backend.Backend

	// Expect repeats what Info promises, so that a promise cannot be weakened
	// without a change here. Service is not compared.
	Expect backend.Info

	// URL is a config URL of the service that Open uses.
	URL string

	// Crash ends the client b as SIGKILL would: it tells the service nothing.
	// Calls in progress on b may return anything.
	Crash func(tb testing.TB, b backend.Backend)

	// Sever cuts b off from the service, without an answer to anything, until
	// heal is called.
	Sever func(tb testing.TB, b backend.Backend) (heal func())

	// Slack is how long the service may take for what should happen at once.
	// The default is 5 s.
	Slack time.Duration

	// Virtual runs each check in a bubble of testing/synctest, where time
	// passes only while everybody waits. It is for backends without real I/O.
	Virtual bool

	// Known lists checks that fail, and why. They must go on failing: one that
	// passes is an error, so that the list does not outlive its reasons.
	Known map[string]string

	// Only these checks run, if it is set.
	only func(check) bool
	// The backend may answer ErrUnavailable at any time.
	flaky bool
	// Sizes are as small as they can be, since the suite runs many times.
	small bool
	// The backend is known to break promises.
	lies bool
}

const defaultSlack = 5 * time.Second

// Run runs all checks as subtests of t.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.Open == nil {
		t.Fatal("conformance: a Harness needs Open")
	}
	h = h.withDefaults()
	known := make(map[string]bool)
	for _, c := range checks() {
		known[c.name] = true
		if h.only != nil && !h.only(c) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			report(t, c, h.Known[c.name], h.judge(t, c))
		})
	}
	for name := range h.Known {
		if !known[name] {
			t.Errorf("Known names %q, and there is no such check", name)
		}
	}
}

func (h Harness) withDefaults() Harness {
	if h.Slack <= 0 {
		h.Slack = defaultSlack
	}
	return h
}

// report tells t how a check went.
func report(t *testing.T, c check, knownToFail string, r result) {
	t.Helper()
	for _, line := range r.logs {
		t.Log(line)
	}
	switch {
	case len(r.failures) > 0 && knownToFail != "":
		t.Skipf("known to fail: %s\n%s", knownToFail, strings.Join(r.failures, "\n"))
	case len(r.failures) > 0:
		for _, f := range r.failures {
			t.Error(f)
		}
		t.Errorf("the promise: %s", c.why)
	case r.skipped != "":
		t.Skip(r.skipped)
	case knownToFail != "":
		t.Errorf("passes now, and is said to fail: %s\nremove it from Known", knownToFail)
	}
}

// A check is one promise and how to see whether it is kept.
type check struct {
	name string // stable: Known and -run refer to it
	why  string // the promise, printed when it is broken
	need []need
	fn   func(t *T)
	// tough checks hold, too, while calls fail now and then.
	tough bool
}

// checks lists all checks, in the order in which a new driver should make them
// pass.
func checks() []check {
	var all []check
	for _, subject := range [][]check{
		infoChecks(), acquireChecks(), tryChecks(), observeChecks(), goneChecks(),
		registerChecks(), withdrawChecks(), downgradeChecks(), closeChecks(),
		lockChecks(), rwChecks(), semaphoreChecks(), electionChecks(), groupChecks(),
		barrierChecks(), roundChecks(), latchChecks(), nameChecks(), sessionChecks(), historyChecks(),
	} {
		all = append(all, subject...)
	}
	return all
}

// A need is what a check asks of a harness. It returns why that is not there.
type need func(Harness) string

func kind(k backend.Kind) need {
	return func(h Harness) string {
		if h.Expect.Supports(k) {
			return ""
		}
		return "the backend does not claim to have a " + k.String()
	}
}

func promised(ok func(backend.Info) bool, what string) need {
	return func(h Harness) string {
		if ok(h.Expect) {
			return ""
		}
		return "the backend does not promise " + what
	}
}

var (
	fifo    = promised(func(i backend.Info) bool { return i.FIFO }, "the order of arrival")
	fencing = promised(func(i backend.Info) bool { return i.Fencing }, "tokens that grow over restarts")
	durable = promised(func(i backend.Info) bool { return i.Durable }, "registers that outlive all clients")
)

func crash(h Harness) string {
	if h.Crash == nil {
		return "the harness has no Crash"
	}
	return ""
}

func sever(h Harness) string {
	if h.Sever == nil {
		return "the harness has no Sever"
	}
	return ""
}

func (c check) unmet(h Harness) string {
	for _, n := range c.need {
		if why := n(h); why != "" {
			return why
		}
	}
	return ""
}
