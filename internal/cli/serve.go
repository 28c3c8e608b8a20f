package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gocoord/coord/backend"
)

func (a *app) serveCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "serve [URL]",
		Short:   "Stay, and serve a socket",
		Long:    serveLong,
		Example: serveExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.urlArgument(cmd, args); err != nil {
				return err
			}
			return a.serve(cmd.Context())
		},
		ValidArgsFunction: completeURL,
	}
}

// serve is a client that claims nothing and stays: of a socket one client is
// the server, and the next takes over when it goes.
func (a *app) serve(ctx context.Context) error {
	t, err := a.target()
	if err != nil {
		return err
	}
	if _, err := backend.Parse(t.url); err != nil {
		return fmt.Errorf("from %s: %w", t.origin, err)
	}
	if t.scheme() != "socket" && t.scheme() != "unix" {
		return usage("%s:// is not served by coord; only socket:// (or unix://) is", t.scheme())
	}
	signals := watchSignals()
	s, sig, err := await(ctx, signals, 0, func(ctx context.Context) (*service, error) { return a.open(ctx, t) })
	if s != nil {
		defer a.closed(s)
	}
	if sig != nil {
		return exit(exitSignal + number(sig))
	}
	if err != nil {
		return err
	}
	a.say("serving %s", s.Info().Service)
	for {
		select {
		case sig := <-signals.c:
			if ends(sig) {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}
