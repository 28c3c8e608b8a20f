//go:build !unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// signals is every signal that is not for coord itself, in order of arrival.
type signals struct{ c chan os.Signal }

func watchSignals() *signals {
	s := &signals{make(chan os.Signal, 64)}
	signal.Notify(s.c, os.Interrupt, syscall.SIGTERM)
	return s
}

func (s *signals) running() {}

// writeOn has nothing to do: there is no such signal.
func writeOn() {}

// ends reports whether a signal ends a wait.
func ends(os.Signal) bool { return true }

// number is the signal's, for an exit status.
func number(s os.Signal) int {
	n, _ := s.(syscall.Signal)
	return int(n)
}
