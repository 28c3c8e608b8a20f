// Package cli is the coord command: everything of it but main.
package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// An app is one run of the program.
type app struct {
	stdout, stderr io.Writer

	// Flags that every command has.
	url     string
	urlFile string
	owner   string
	verbose bool
}

// Main runs the program with these arguments and returns its exit status.
func Main(args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && args[0] == guardCommand {
		return guardMain()
	}
	a := &app{stdout: stdout, stderr: stderr}
	root := a.root()
	root.SetArgs(args)
	err := root.Execute()
	var e *exitError
	if err != nil && (!errors.As(err, &e) || e.err != nil) {
		a.complain(err)
	}
	return status(err)
}

// complain prints an error, in one line and signed.
func (a *app) complain(err error) {
	text := strings.TrimPrefix(err.Error(), "coord: ")
	_, _ = fmt.Fprintln(a.stderr, "coord: "+strings.ReplaceAll(text, "\n", "; "))
}

// warn tells what is no error.
func (a *app) warn(format string, args ...any) {
	_, _ = fmt.Fprintf(a.stderr, "coord: "+format+"\n", args...)
}

// say prints a line of the result.
func (a *app) say(format string, args ...any) {
	_, _ = fmt.Fprintf(a.stdout, format+"\n", args...)
}

// logger tells the course of things with --verbose. The SDK keeps secrets out
// of what it logs.
func (a *app) logger() *slog.Logger {
	if !a.verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

const rootLong = `coord runs commands under locks that hold between processes and hosts, and shows
who holds what.

The service is named by a config URL: --url, --url-file or COORD_URL. Without any
of them it is a socket in your runtime directory, which needs no server and
coordinates the processes that you run on this host. "coord urls" lists the kinds
of services with their parameters, "coord doctor" checks one.`

const rootExample = `  # one at a time, whoever starts it on this host
  coord lock nightly-report -- ./report.sh

  # the same between hosts
  COORD_URL=etcd://etcd1:2379,etcd2:2379,etcd3:2379/jobs coord lock nightly-report -- ./report.sh

  # give up after half a minute; 75 says that the lock was not free
  coord lock --timeout 30s nightly-report -- ./report.sh; echo $?

  # who holds it, and who waits
  coord status nightly-report`

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "coord",
		Short:         "Run commands under locks, semaphores, elections and barriers",
		Long:          rootLong,
		Example:       rootExample,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			hint := ""
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				hint = fmt.Sprintf("; did you mean %q?", near[0])
			}
			return usage("unknown command %q%s; coord help lists them", args[0], hint)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	root.SetVersionTemplate("coord {{.Version}}\n")
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%w; %s --help lists the flags, and flags of the command to run come after --", err, cmd.CommandPath())
	})
	p := root.PersistentFlags()
	p.StringVarP(&a.url, "url", "u", "", "config `URL` of the service; visible to all users of this host if given here")
	p.StringVar(&a.urlFile, "url-file", "", "`file` whose first line is the config URL, for URLs with a password")
	p.StringVar(&a.owner, "owner", "", "who coord says it is to those who look (default host/pid)")
	p.BoolVarP(&a.verbose, "verbose", "v", false, "log the course of things to standard error")
	_ = root.RegisterFlagCompletionFunc("url", completeURL)
	_ = root.MarkPersistentFlagFilename("url-file")
	root.AddCommand(a.lockCommand(), a.electCommand(), a.barrierCommand(), a.statusCommand(), a.serveCommand(),
		a.doctorCommand(), a.urlsCommand(), a.versionCommand())
	return root
}

// exactly is a check of the arguments that says what they should have been.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usage("%s takes %s, and got %d arguments", cmd.CommandPath(), what, len(args))
		}
		return nil
	}
}

// getenv is the environment; empty variables are as good as none.
func getenv(name string) (string, bool) {
	v := os.Getenv(name)
	return v, v != ""
}
