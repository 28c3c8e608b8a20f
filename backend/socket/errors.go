//go:build linux || darwin

package socket

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/gocoord/coord/backend"
)

// A code is an error of package backend on the wire.
type code uint8

// The errors that a server answers with, and those for none of them.
var codes = []error{
	backend.ErrUnavailable, // 0, and what is none of these
	backend.ErrBusy, backend.ErrMismatch, backend.ErrInvalid, backend.ErrConflict, backend.ErrUnsupported, os.ErrPermission,
}

// failure makes the answer of a request that failed.
func failure(number uint64, err error) *reply {
	r := &reply{op: opFail, number: number, text: err.Error()}
	for i, sentinel := range codes {
		if errors.Is(err, sentinel) {
			r.code = code(i)
			break
		}
	}
	return r
}

// A remoteError is an error that a server answered with.
type remoteError struct {
	kind error
	text string
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.kind }

// err is the error of an answer, or nil.
func (r *reply) err() error {
	if r.op != opFail {
		return nil
	}
	kind := backend.ErrUnavailable
	if int(r.code) < len(codes) {
		kind = codes[r.code]
	}
	if r.text == kind.Error() {
		return kind
	}
	if !strings.Contains(r.text, kind.Error()) {
		return fmt.Errorf("%w: %s", kind, r.text)
	}
	return &remoteError{kind, r.text}
}
