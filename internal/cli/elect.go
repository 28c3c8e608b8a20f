package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
)

func (a *app) electCommand() *cobra.Command {
	var (
		h    holding
		data string
		show statusFlags
		who  bool
	)
	cmd := &cobra.Command{
		Use:     "elect [flags] NAME [-- COMMAND [ARGUMENT…]]",
		Short:   "Run a command while leading an election, or show who leads",
		Long:    electLong,
		Example: electExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, command, err := split(cmd, args)
			switch {
			case err != nil:
				return err
			case len(command) > 0 && (who || show.watch || show.json):
				return usage("--leader, --watch and --json only look, and take no command")
			case len(command) > 0:
				return a.run(cmd.Context(), &h, leaderClaim{data}, name, command)
			case !who && !show.watch && !show.json:
				return usage("give a command to run while leading, after --, or --leader or --watch to see who leads")
			}
			show.timeout = seconds(defaultPatience)
			if h.timeout > 0 {
				show.timeout = h.timeout
			}
			return a.leader(cmd.Context(), &show, name)
		},
	}
	h.register(cmd)
	f := cmd.Flags()
	f.BoolVarP(&h.try, "try", "n", false, "do not wait for others")
	f.StringVar(&data, "data", "", "what the leader publishes")
	f.BoolVar(&who, "leader", false, "print what the leader publishes, or else its owner; 1 if nobody leads")
	f.BoolVar(&show.watch, "watch", false, "print who leads, and each change")
	f.BoolVar(&show.json, "json", false, "with --leader or --watch: print JSON")
	return cmd
}

// leader prints who leads, once or again and again.
func (a *app) leader(ctx context.Context, f *statusFlags, name string) error {
	return a.look(ctx, f.timeout, func(ctx, limited context.Context, s *service) error {
		e := s.Election(name)
		if !f.watch {
			m, err := e.Leader(limited)
			if err != nil {
				return err
			}
			a.showLeader(f, name, m)
			if m == nil {
				return exit(1)
			}
			return nil
		}
		for m, err := range e.Watch(ctx) {
			if err != nil {
				return err
			}
			a.showLeader(f, name, m)
		}
		return nil
	})
}

func (a *app) showLeader(f *statusFlags, name string, m *coord.Member) {
	if f.json {
		l := struct {
			Kind   string    `json:"kind"`
			Name   string    `json:"name"`
			At     time.Time `json:"at"`
			Leader *leader   `json:"leader"`
		}{Kind: backend.Election.String(), Name: name, At: time.Now().UTC()}
		if m != nil {
			l.Leader = &leader{Owner: m.Owner, Data: printable(m.Data), Token: m.Token, ID: m.ID}
		}
		a.printJSON(l)
		return
	}
	switch {
	case m == nil && f.watch:
		a.say("-")
	case m == nil:
		a.warn("nobody leads %q", name)
	case len(m.Data) > 0:
		a.say("%s", plainText(printable(m.Data)))
	default:
		a.say("%s", plainText(m.Owner))
	}
}

// leader is what --json prints of one.
type leader struct {
	Owner string `json:"owner"`
	Data  string `json:"data,omitempty"`
	Token uint64 `json:"token"`
	ID    string `json:"id"`
}
