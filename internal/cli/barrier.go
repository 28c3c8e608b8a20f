package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) barrierCommand() *cobra.Command {
	var (
		h       holding
		parties int
	)
	cmd := &cobra.Command{
		Use:     "barrier [flags] NAME [-- COMMAND [ARGUMENT…]]",
		Short:   "Wait for others, and go on together",
		Long:    barrierLong,
		Example: barrierExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, command, err := split(cmd, args)
			switch {
			case err != nil:
				return err
			case !cmd.Flags().Changed("parties"):
				return usage("give --parties, for how many the barrier is; it must be the same for all")
			case len(command) > 0:
				return a.run(cmd.Context(), &h, barrierClaim{parties}, name, command)
			}
			return a.meet(cmd.Context(), &h, name, parties)
		},
	}
	h.register(cmd)
	cmd.Flags().IntVarP(&parties, "parties", "p", 0, "for how many the barrier is")
	return cmd
}

// meet waits for the others and runs nothing.
func (a *app) meet(ctx context.Context, h *holding, name string, parties int) error {
	if err := h.check(); err != nil {
		return err
	}
	t, err := a.target()
	if err != nil {
		return err
	}
	signals := watchSignals()
	_, sig, err := await(ctx, signals, time.Duration(h.timeout), func(ctx context.Context) (struct{}, error) {
		s, err := a.connect(ctx, t)
		if err != nil {
			return struct{}{}, err
		}
		defer a.closed(s)
		return struct{}{}, s.Barrier(name, parties).Wait(ctx)
	})
	switch {
	case err == nil: // a signal that came later is too late
		return nil
	case sig != nil:
		return exit(exitSignal + number(sig))
	case status(err) == exitBusy:
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("barrier %q: not all of %d parties came within %v", name, parties, time.Duration(h.timeout))
		}
		return &exitError{h.busy.code, err}
	}
	return err
}
