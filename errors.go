package coord

import (
	"fmt"
	"strings"

	"github.com/gocoord/coord/backend"
	"github.com/hashicorp/go-multierror"
)

// What can go wrong, whatever the backend. Test with errors.Is; a context's
// end shows as context.Canceled or context.DeadlineExceeded.
var (
	ErrBusy        = backend.ErrBusy        // a Try would have had to wait
	ErrLost        = backend.ErrLost        // the hold may be another's by now
	ErrReleased    = backend.ErrReleased    // the hold was given back by its owner
	ErrClosed      = backend.ErrClosed      // the client was closed
	ErrUnavailable = backend.ErrUnavailable // the service does not answer; a change was perhaps made
	ErrMismatch    = backend.ErrMismatch    // others use the name with another limit, count or number of parties
	ErrInvalid     = backend.ErrInvalid     // a name, number or URL that no backend takes
	ErrUnsupported = backend.ErrUnsupported // this backend or platform cannot, or promises less than required
)

// An Error tells which operation failed, where and why.
type Error struct {
	Op      string // "lock", "try lock", "enter barrier", …
	Backend string // the driver's name; empty if there is none yet
	Name    string // of the lock or other place; empty if it is not about one
	Err     error  // a sentinel of this package or a context error, with its cause
}

// Error puts the parts into one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("coord: ")
	b.WriteString(e.Op)
	if e.Name != "" {
		fmt.Fprintf(&b, " %.64q", e.Name)
	}
	if e.Backend != "" {
		fmt.Fprintf(&b, " (%s)", e.Backend)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// gather makes one error of several, of which any may be nil. errors.Is and
// errors.As see all of them.
func gather(errs ...error) error {
	var all *multierror.Error
	for _, err := range errs {
		if err != nil {
			all = multierror.Append(all, err)
		}
	}
	if all == nil {
		return nil
	}
	if len(all.Errors) == 1 {
		return all.Errors[0]
	}
	all.ErrorFormat = oneLine
	return all
}

func oneLine(errs []error) string {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}
