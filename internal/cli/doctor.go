package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
)

func (a *app) doctorCommand() *cobra.Command {
	var (
		asJSON  bool
		timeout = seconds(defaultPatience)
	)
	cmd := &cobra.Command{
		Use:     "doctor [flags] [URL]",
		Short:   "Check that a service is fit for use, and say what to do",
		Long:    doctorLong,
		Example: doctorExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.urlArgument(cmd, args); err != nil {
				return err
			}
			return a.doctor(cmd.Context(), time.Duration(timeout), asJSON)
		},
		ValidArgsFunction: completeURL,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().Var(&timeout, "timeout", "how long all of it may take")
	return cmd
}

// A diagnosis is what --json prints.
type diagnosis struct {
	Fit    bool    `json:"fit"`
	Scheme string  `json:"scheme,omitempty"`
	Checks []check `json:"checks"`
}

// A check is a line of the diagnosis.
type check struct {
	Check  string `json:"check"`
	Result string `json:"result"` // ok, note, bad
	Detail string `json:"detail"`
	Advice string `json:"advice,omitempty"`
}

const (
	resultOK   = "ok"
	resultNote = "note"
	resultBad  = "bad"
)

var marks = map[string]string{resultOK: "✓", resultNote: "!", resultBad: "✗"}

// A doctor works its way through the checks.
type doctor struct {
	app    *app
	asJSON bool
	diagnosis
}

func (d *doctor) note(c check) {
	d.Checks = append(d.Checks, c)
	d.Fit = d.Fit && c.Result != resultBad
	if d.asJSON {
		return
	}
	d.app.say("%s %s: %s", marks[c.Result], c.Check, strings.ReplaceAll(c.Detail, "\n", "; "))
	if c.Advice != "" {
		d.app.say("    %s", c.Advice)
	}
}

func (d *doctor) ok(name, format string, args ...any) {
	d.note(check{Check: name, Result: resultOK, Detail: fmt.Sprintf(format, args...)})
}

func (d *doctor) bad(name string, err error, advice string) {
	d.note(check{Check: name, Result: resultBad, Detail: reason(err), Advice: advice})
}

// doctor prints what it finds and ends with 1 where something is wrong.
func (a *app) doctor(ctx context.Context, timeout time.Duration, asJSON bool) error {
	d := &doctor{app: a, asJSON: asJSON, diagnosis: diagnosis{Fit: true, Checks: []check{}}}
	signals := watchSignals()
	_, sig, _ := await(ctx, signals, timeout, func(ctx context.Context) (struct{}, error) {
		d.examine(ctx)
		return struct{}{}, nil
	})
	if sig != nil {
		return exit(exitSignal + number(sig))
	}
	if asJSON {
		a.printJSON(d.diagnosis)
	}
	if !d.Fit {
		return exit(1)
	}
	return nil
}

func (d *doctor) examine(ctx context.Context) {
	t, err := d.app.target()
	if err != nil {
		d.bad("URL", err, "")
		return
	}
	if _, err := backend.Parse(t.url); err != nil {
		d.bad("URL", fmt.Errorf("from %s: %w", t.origin, err), `"coord urls" lists the forms and parameters`)
		return
	}
	d.Scheme = t.scheme()
	d.ok("URL", "%s://, from %s", t.scheme(), t.origin)
	if t.secret() && t.origin == originFlag {
		d.note(check{"secrets", resultNote, "the command line shows the password to every user of this host",
			"give the URL by COORD_URL, or by --url-file with a file that only you can read"})
	}
	if path, ok := pathOf(t.url); ok && !d.place(t.scheme(), path) {
		return
	}
	start := time.Now()
	s, err := d.app.open(ctx, t)
	if err != nil {
		d.bad("connection", err, connectionAdvice(err))
		return
	}
	defer func() {
		if err := s.Close(); err != nil {
			d.bad("end of the session", err, "")
		}
	}()
	d.ok("connection", "%s %s, in %v", s.Info().Name, s.Info().Service, short(time.Since(start)))
	d.promises(s.Info())
	if d.lock(ctx, s) {
		d.register(ctx, s)
	}
	d.findings(ctx, s)
}

func connectionAdvice(err error) string {
	switch {
	case errors.Is(err, coord.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return "check that it runs, that host and port are right, that no firewall is in between, and that TLS is used on both sides or on none"
	case errors.Is(err, coord.ErrUnsupported):
		return `another kind of service may do: "coord urls" lists them`
	}
	return ""
}

// promises tells what the service is good for.
func (d *doctor) promises(info backend.Info) {
	expiry := "at once"
	if info.Expiry > 0 {
		expiry = "within " + info.Expiry.String()
	}
	d.ok("promises", "coordinates within one %s; a crashed holder is freed %s", info.Scope, expiry)
	if info.Scope == backend.Process {
		d.note(check{"scope", resultNote, "it coordinates the goroutines of one process",
			"coord lock guards nothing with it; it is for programs, and for their tests"})
	}
	if !info.FIFO {
		d.note(check{Check: "order", Result: resultNote, Detail: "claims are not admitted in order of arrival"})
	}
}

const rounds = 20

// lock takes a scratch lock, which needs the rights that all locks do, and
// measures.
func (d *doctor) lock(ctx context.Context, s *service) bool {
	l := s.Locker(scratch())
	times := make([]time.Duration, 0, rounds)
	for i := range rounds {
		start := time.Now()
		h, err := l.Lock(ctx)
		if err != nil {
			d.bad("lock", err, "the user needs the right to write below the URL's path")
			return false
		}
		if i == 0 {
			if _, err := l.TryLock(ctx); !errors.Is(err, coord.ErrBusy) {
				d.bad("lock", fmt.Errorf("a second claim was answered %w, want %w", err, coord.ErrBusy), "do not use this service")
			}
		}
		if err := h.Release(); err != nil {
			d.bad("unlock", err, "")
			return false
		}
		if i > 0 {
			times = append(times, time.Since(start))
		}
	}
	slices.Sort(times)
	d.ok("lock", "taken and released %d times; a pair takes %v (median), %v (longest)", rounds,
		short(times[len(times)/2]), short(times[len(times)-1]))
	return true
}

// register writes and removes a register, as barriers and latches need it.
func (d *doctor) register(ctx context.Context, s *service) {
	if !s.Info().Supports(backend.Latch) {
		return
	}
	l := s.Latch(scratch(), 1)
	err := l.CountDown(ctx)
	if err == nil {
		err = l.Wait(ctx)
	}
	if rerr := l.Remove(context.WithoutCancel(ctx)); err == nil {
		err = rerr
	}
	if err != nil {
		d.bad("register", err, "barriers and latches need the right to write below the URL's path")
		return
	}
	d.ok("register", "written, read and removed")
}

// findings asks the service for more than its answers show.
func (d *doctor) findings(ctx context.Context, s *service) {
	q, ok := backend.As[backend.Diagnoser](s.backend)
	if !ok {
		return
	}
	found, err := q.Diagnose(ctx)
	for _, f := range found {
		c := check{f.Subject, resultOK, f.Detail, f.Advice}
		if f.Advice != "" {
			c.Result = resultNote
		}
		d.note(c)
	}
	if err != nil {
		d.bad("service", err, "")
	}
}

// scratch is a name that nobody else uses.
func scratch() string { return "coord-doctor/" + rand.Text() }

func short(d time.Duration) time.Duration {
	if d < time.Millisecond {
		return d.Round(time.Microsecond / 10)
	}
	return d.Round(time.Millisecond / 100)
}
