package backend

import "context"

// What follows is optional: a Backend may have it, and [As] finds it.

// A Lister is a Backend that can tell which places are in use.
type Lister interface {
	// Places lists the places that have somebody in line, sorted by kind and
	// name. A lock is listed as a Mutex.
	Places(ctx context.Context) ([]Place, error)
}

// A Diagnoser is a Backend that knows more about the state of its service than
// its answers show.
type Diagnoser interface {
	// Diagnose asks the service how it is. It reports what it found out, with
	// an error only where it could not ask.
	Diagnose(ctx context.Context) ([]Finding, error)
}

// A Finding is one thing that is as it should be, or not.
type Finding struct {
	Subject string // what was looked at
	Detail  string // what was seen; never a secret
	Advice  string // what to do about it; empty if it is as it should be
}
