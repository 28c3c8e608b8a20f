package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gocoord/coord/backend"
)

// holding is the flags of the commands that run another command while they
// hold something.
type holding struct {
	try     bool
	timeout seconds
	busy    exitCode
	lost    exitCode
	grace   seconds
	onLoss  string
	passURL bool
	front   bool
}

const (
	lossTerminate = "terminate"
	lossIgnore    = "ignore"
)

func (h *holding) register(cmd *cobra.Command) {
	h.busy = exitCode{code: exitBusy}
	h.lost = exitCode{code: exitLost, failure: true}
	h.grace = seconds(defaultGrace)
	f := cmd.Flags()
	f.VarP(&h.timeout, "timeout", "w", "wait at most this long, in seconds or with a unit, and not for ever")
	f.VarP(&h.busy, "conflict-exit-code", "E", "exit `status` when it was not obtained by --try or within --timeout")
	f.Var(&h.lost, "lost-exit-code", "exit `status` when it was lost while the command ran")
	f.Var(&h.grace, "grace", "time from TERM to KILL for a command that has to end")
	f.StringVar(&h.onLoss, "on-loss", lossTerminate, "`action` when the hold is lost: terminate or ignore")
	f.BoolVar(&h.passURL, "pass-url", false, "leave a COORD_URL with a password in the command's environment")
	f.BoolVar(&h.front, "foreground", false, "give the terminal to the command at once, not when it asks")
	_ = cmd.RegisterFlagCompletionFunc("on-loss", cobra.FixedCompletions([]string{lossTerminate, lossIgnore}, cobra.ShellCompDirectiveNoFileComp))
}

func (h *holding) check() error {
	switch {
	case h.onLoss != lossTerminate && h.onLoss != lossIgnore:
		return usage("--on-loss=%s: want %s or %s", h.onLoss, lossTerminate, lossIgnore)
	case h.try && h.timeout > 0:
		return usage("--try and --timeout are both given; give one")
	}
	return nil
}

// split takes NAME -- COMMAND… apart. The command is nil where none is given.
func split(cmd *cobra.Command, args []string) (name string, command []string, err error) {
	dash := cmd.ArgsLenAtDash()
	if dash < 0 {
		dash = len(args)
		if dash > 1 {
			return "", nil, usage("%s takes one name, and got %q; put -- before the command to run, as in: %s %s -- %s",
				cmd.CommandPath(), args, cmd.CommandPath(), args[0], strings.Join(args[1:], " "))
		}
	}
	if dash != 1 {
		return "", nil, usage("%s takes one name before --, and got %d; see %s --help", cmd.CommandPath(), dash, cmd.CommandPath())
	}
	if err := backend.CheckName(args[0]); err != nil {
		return "", nil, err
	}
	return args[0], args[1:], nil
}

// commandOf is split for where a command is needed.
func commandOf(cmd *cobra.Command, args []string) (name string, command []string, err error) {
	name, command, err = split(cmd, args)
	if err == nil && len(command) == 0 {
		err = usage("no command to run; give it after --, as in: %s %s -- echo held", cmd.CommandPath(), name)
	}
	return name, command, err
}

func (a *app) lockCommand() *cobra.Command {
	var (
		h             holding
		shared, elect bool
		permits       int64
		limit         int64
		parties       int
		data          string
	)
	cmd := &cobra.Command{
		Use:     "lock [flags] NAME -- COMMAND [ARGUMENT…]",
		Short:   "Run a command while holding a lock",
		Long:    lockLong,
		Example: lockExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, command, err := commandOf(cmd, args)
			if err != nil {
				return err
			}
			changed := cmd.Flags().Changed
			permit := changed("permits") || changed("limit")
			switch n := count(shared, elect, permit, changed("barrier")); {
			case n > 1:
				return usage("--shared, --elect, --barrier and --permits with --limit exclude each other; give one")
			case permit && !changed("limit"):
				return usage("--permits needs --limit, the number of permits there are; it must be the same for all")
			case changed("data") && !elect:
				return usage("--data is what a leader publishes, and needs --elect")
			case h.try && changed("barrier"):
				return usage("--try makes no sense with --barrier, which always waits for others; give --timeout")
			}
			var c claim = lockClaim{shared: shared}
			switch {
			case permit:
				c = permitClaim{permits, limit}
			case elect:
				c = leaderClaim{data}
			case changed("barrier"):
				c = barrierClaim{parties}
			}
			return a.run(cmd.Context(), &h, c, name, command)
		},
	}
	h.register(cmd)
	f := cmd.Flags()
	f.BoolVarP(&h.try, "try", "n", false, "do not wait for others")
	f.BoolVarP(&shared, "shared", "s", false, "a reader's share: with other readers, never with a writer")
	f.Int64Var(&permits, "permits", 1, "take this `number` of a semaphore's permits; needs --limit")
	f.Int64Var(&limit, "limit", 0, "a semaphore of this `number` of permits instead of a lock")
	f.BoolVar(&elect, "elect", false, "lead the election of this name instead; see coord elect")
	f.StringVar(&data, "data", "", "with --elect: what the leader publishes")
	f.IntVar(&parties, "barrier", 0, "be one of this `number` of parties of a barrier instead; see coord barrier")
	return cmd
}

func count(flags ...bool) int {
	n := 0
	for _, f := range flags {
		if f {
			n++
		}
	}
	return n
}

// An admission is what a command runs under.
type admission struct {
	kind  backend.Kind
	name  string
	token uint64
	done  <-chan struct{}
	err   func() error // nil while it is held
	// release gives it back. Only that of a barrier waits for others, until
	// ctx ends.
	release func(ctx context.Context) error
	waits   bool
}

// String names it for people.
func (m *admission) String() string { return fmt.Sprintf("%s %q", m.kind, m.name) }
