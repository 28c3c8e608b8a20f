package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/gocoord/coord/backend"
)

// lineKinds are the kinds that have a line of their own to show. A read/write
// lock's is the lock's.
var lineKinds = []backend.Kind{backend.Mutex, backend.Semaphore, backend.Election, backend.Group, backend.Barrier, backend.Latch}

func kindNames() []string {
	var out []string
	for _, k := range lineKinds {
		out = append(out, k.String())
	}
	return out
}

func kindOf(name string) (backend.Kind, error) {
	for _, k := range backend.Kinds() {
		if k.String() == name {
			return k, nil
		}
	}
	return 0, usage("--kind=%s: want one of %s", name, strings.Join(kindNames(), ", "))
}

// statusFlags is what coord status was asked for.
type statusFlags struct {
	kind               string
	watch, json, quiet bool
	timeout            seconds
}

func (a *app) statusCommand() *cobra.Command {
	var f statusFlags
	f.timeout = seconds(defaultPatience)
	cmd := &cobra.Command{
		Use:     "status [flags] [NAME]",
		Short:   "Show who holds and who waits",
		Long:    statusLong,
		Example: statusExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("%s takes one name at most, and got %d", cmd.CommandPath(), len(args))
			}
			if len(args) == 0 {
				if f.watch || f.quiet || f.kind != "" {
					return usage("--watch, --quiet and --kind need a name")
				}
				return a.statusOfAll(cmd.Context(), &f)
			}
			if f.quiet && (f.watch || f.json) {
				return usage("--quiet prints nothing, and excludes --watch and --json")
			}
			return a.statusOf(cmd.Context(), &f, args[0])
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.kind, "kind", "k", "", "look at this `kind` only: "+strings.Join(kindNames(), ", "))
	fl.BoolVar(&f.watch, "watch", false, "go on, and print each change")
	fl.BoolVar(&f.json, "json", false, "print one JSON object for each state")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "print nothing; 0 says that somebody holds it, 1 that nobody does")
	fl.Var(&f.timeout, "timeout", "how long the service may take to answer")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kindNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// defaultPatience is how long commands that only look wait for an answer.
const defaultPatience = 10 * time.Second

// look opens the service and runs f with a limited time to answer, which f may
// leave for a watch.
func (a *app) look(ctx context.Context, timeout seconds, f func(ctx, limited context.Context, s *service) error) error {
	t, err := a.target()
	if err != nil {
		return err
	}
	signals := watchSignals()
	_, sig, err := await(ctx, signals, 0, func(ctx context.Context) (struct{}, error) {
		limited, cancel := context.WithTimeout(ctx, time.Duration(timeout))
		defer cancel()
		s, err := a.open(limited, t)
		if err != nil {
			return struct{}{}, slow(limited, timeout, err)
		}
		defer a.closed(s)
		return struct{}{}, slow(limited, timeout, f(ctx, limited, s))
	})
	if sig != nil {
		return exit(exitSignal + number(sig))
	}
	return err
}

// slow makes a time-out what it is to somebody who only looks: no answer.
func slow(limited context.Context, timeout seconds, err error) error {
	if err == nil || limited.Err() != context.DeadlineExceeded || status(err) != exitBusy {
		return err
	}
	return &exitError{exitUnavailable, fmt.Errorf("no answer within %v (--timeout): %w", time.Duration(timeout), err)}
}

// statusOf shows one name, of all kinds or of one.
func (a *app) statusOf(ctx context.Context, f *statusFlags, name string) error {
	if err := backend.CheckName(name); err != nil {
		return err
	}
	kinds := lineKinds
	if f.kind != "" || f.watch {
		k := backend.Mutex
		if f.kind != "" {
			var err error
			if k, err = kindOf(f.kind); err != nil {
				return err
			}
		}
		kinds = []backend.Kind{k}
	}
	return a.look(ctx, f.timeout, func(ctx, limited context.Context, s *service) error {
		if f.watch {
			return a.follow(ctx, f, s, backend.Place{Kind: kinds[0], Name: name})
		}
		found := false
		for _, k := range kinds {
			if !s.Info().Supports(k) {
				continue
			}
			entries, err := s.Inspect(limited, k, name)
			if err != nil {
				return err
			}
			found = found || len(entries) > 0
			if !f.quiet && (len(entries) > 0 || f.kind != "") {
				a.show(f, backend.Place{Kind: k, Name: name}, entries)
			}
		}
		switch {
		case f.quiet && !found:
			return exit(1)
		case !f.quiet && !found && f.kind == "" && f.json:
			a.show(f, backend.Place{Kind: backend.Mutex, Name: name}, nil)
		case !f.quiet && !found && f.kind == "":
			a.say("%q: nobody holds it, and nobody waits", name)
		}
		return nil
	})
}

// follow shows each state of a line until ctx ends.
func (a *app) follow(ctx context.Context, f *statusFlags, s *service, p backend.Place) error {
	var since backend.Version
	for {
		roster, err := s.backend.Observe(ctx, p, since)
		if err != nil {
			return err
		}
		since = roster.Version
		if !f.json {
			a.say("%s", time.Now().Format("15:04:05.000"))
		}
		a.show(f, p, roster.Entries)
	}
}

// statusOfAll shows everything that is in use, where the backend can tell.
func (a *app) statusOfAll(ctx context.Context, f *statusFlags) error {
	return a.look(ctx, f.timeout, func(_, limited context.Context, s *service) error {
		lister, ok := backend.As[backend.Lister](s.backend)
		if !ok {
			return usage("the %s backend cannot list names; give one", s.Info().Name)
		}
		places, err := lister.Places(limited)
		if err != nil {
			return err
		}
		for _, p := range places {
			entries, err := s.Inspect(limited, p.Kind, p.Name)
			if err != nil {
				return err
			}
			if len(entries) > 0 {
				a.show(f, p, entries)
			}
		}
		if len(places) == 0 && !f.json {
			a.say("nothing is held on %s", s.Info().Service)
		}
		return nil
	})
}

// A line is what --json prints of a place.
type line struct {
	Kind    string  `json:"kind"`
	Name    string  `json:"name"`
	Entries []entry `json:"entries"`
}

type entry struct {
	State  string     `json:"state"` // holds, waits
	Mode   string     `json:"mode"`
	Token  uint64     `json:"token"`
	Owner  string     `json:"owner,omitempty"`
	Since  *time.Time `json:"since,omitempty"`
	Weight int64      `json:"weight,omitempty"`
	Limit  int64      `json:"limit,omitempty"`
	Data   string     `json:"data,omitempty"`
	ID     string     `json:"id"`
}

func describe(e backend.Entry) entry {
	out := entry{
		State: "waits", Mode: e.Claim.Mode.String(), Token: e.Token, Owner: e.Claim.Owner,
		Weight: e.Claim.Weight, Limit: e.Claim.Limit, Data: printable(e.Claim.Data), ID: e.ID,
	}
	if e.Admitted {
		out.State = "holds"
	}
	if !e.Since.IsZero() {
		since := e.Since.UTC()
		out.Since = &since
	}
	return out
}

// printable is data as text, quoted where it is none.
func printable(data []byte) string {
	if utf8.Valid(data) {
		return string(data)
	}
	return fmt.Sprintf("%q", data)
}

func (a *app) show(f *statusFlags, p backend.Place, entries []backend.Entry) {
	l := line{Kind: p.Kind.String(), Name: p.Name, Entries: make([]entry, 0, len(entries))}
	for _, e := range entries {
		l.Entries = append(l.Entries, describe(e))
	}
	if f.json {
		a.printJSON(l)
		return
	}
	if len(entries) == 0 {
		a.say("%s: nobody holds it, and nobody waits", p)
		return
	}
	a.say("%s", p)
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, e := range l.Entries {
		_, _ = fmt.Fprintf(w, "  %s\t%s\t%s\t%s\ttoken %d\n", e.State, share(e), orDash(plainText(e.Owner)), age(e.Since), e.Token)
	}
	_ = w.Flush()
}

// share says how much of it an entry is about.
func share(e entry) string {
	if e.Limit > 0 && e.Weight > 0 {
		return fmt.Sprintf("%d of %d", e.Weight, e.Limit)
	}
	return e.Mode
}

// age is by the clocks of two hosts, and so no more exact than they are.
func age(since *time.Time) string {
	if since == nil {
		return "-"
	}
	d := max(time.Since(*since), 0)
	if d > time.Second {
		d = d.Round(time.Second)
	}
	return "for " + d.Round(time.Millisecond).String()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// plainText keeps what others wrote from steering the terminal.
func plainText(s string) string {
	q := fmt.Sprintf("%q", s)
	if q == `"`+s+`"` {
		return s
	}
	return q
}

func (a *app) printJSON(v any) {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
}
