package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/gocoord/coord"
)

// Exit statuses of coord itself. Those up to 78 have their meaning from
// sysexits.h; 79 is the first number after them and below those of a shell.
const (
	exitUsage       = 64
	exitUnavailable = 69
	exitSystem      = 71
	exitBusy        = 75
	exitLost        = 79
	exitCannotRun   = 126
	exitNotFound    = 127
	exitSignal      = 128 // plus the signal's number
)

// An exitError ends the program with a status of its own. Without an err there
// is nothing to print: it has been said, or it is the command's own status.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exit ends the program with code and says nothing.
func exit(code int) error {
	if code == 0 {
		return nil
	}
	return &exitError{code: code}
}

// usage is an error of whoever typed the command.
func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// status chooses the exit status for an error of the SDK.
func status(err error) int {
	var e *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.code
	case errors.Is(err, coord.ErrInvalid), errors.Is(err, coord.ErrMismatch):
		return exitUsage
	case errors.Is(err, coord.ErrUnavailable):
		return exitUnavailable // also where a time-out was its cause
	case errors.Is(err, coord.ErrBusy), errors.Is(err, context.DeadlineExceeded):
		return exitBusy
	default:
		return exitUnavailable
	}
}

// caught is the cause of a wait that a signal ended.
type caught struct{ sig os.Signal }

func (c caught) Error() string { return "ended by signal: " + c.sig.String() }
