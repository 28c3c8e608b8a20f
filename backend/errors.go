package backend

import (
	"context"
	"errors"
	"fmt"
)

// What can go wrong, whatever the service. Test with errors.Is.
var (
	ErrBusy        = errors.New("busy")                    // another claim is ahead, and the caller did not want to wait
	ErrLost        = errors.New("hold lost")               // the service may have given it to another by now
	ErrReleased    = errors.New("hold released")           // ended by its owner
	ErrClosed      = errors.New("client closed")           // Close was called
	ErrUnavailable = errors.New("service unavailable")     // no answer: for a change, it was perhaps made
	ErrMismatch    = errors.New("parameters differ")       // others use this name with another limit, count or number of parties
	ErrInvalid     = errors.New("invalid argument")        // a name, claim or URL that no backend takes
	ErrConflict    = errors.New("changed in the meantime") // for Store and Withdraw: look again, then decide again
	ErrUnsupported = errors.ErrUnsupported                 // this backend or platform cannot
)

// ContextError is ctx's error, together with its cause where that says more.
// It is nil while ctx has not ended.
func ContextError(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != err {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// Lost makes an ErrLost that tells why.
func Lost(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrLost, fmt.Errorf(format, args...))
}

// Unavailable makes an ErrUnavailable that names the service and what it, or
// the network, last said. Neither may hold a secret.
func Unavailable(service string, err error) error {
	if err == nil {
		return fmt.Errorf("%w: %s does not answer", ErrUnavailable, service)
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, service, err)
}
