//go:build unix

package cli

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// signals is every signal that is not for coord itself, in order of arrival.
type signals struct{ c chan os.Signal }

// ending is what ends a program by default and is meant to.
var ending = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

// watchSignals takes the signals into hand, until the end: one that comes while
// the program exits must not change its status. One that was ignored when coord
// started, as by nohup, stays ignored, for the command as well.
func watchSignals() *signals {
	s := &signals{make(chan os.Signal, 64)}
	s.add(ending...)
	s.add(syscall.SIGUSR1, syscall.SIGUSR2)
	return s
}

// running takes those signals, too, that only a command has a use for: before,
// a stop has to stop coord.
func (s *signals) running() {
	s.add(syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGWINCH)
}

// writeOn makes writing to a pipe that nobody reads an error and not the end of
// the program, which would take the command along.
func writeOn() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

func (s *signals) add(sigs ...os.Signal) {
	for _, sig := range sigs {
		if !signal.Ignored(sig) {
			signal.Notify(s.c, sig)
		}
	}
}

// ends reports whether a signal ends a wait.
func ends(s os.Signal) bool { return slices.Contains(ending, s) }

// number is the signal's, for an exit status.
func number(s os.Signal) int {
	n, _ := s.(syscall.Signal)
	return int(n)
}
