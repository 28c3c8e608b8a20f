// Package backend is the contract between coord and the services it runs on.
//
// It names mechanisms, not primitives: a driver knows how to put a claim in
// line and say when it is admitted, who is in line, and how to keep one small
// register per place. Locks, semaphores, elections and barriers are written
// once, in package coord, on top of these. An application never calls a
// Backend; it passes one to coord.New, or names one by URL in coord.Open.
//
// # Contract
//
// The conformance suite has a check for each of these sentences.
//
//  1. Methods are safe for concurrent use. Two Backends are strangers, even in
//     one process, and so are two Acquires of one Backend.
//  2. On one place a client never goes back in time between Acquire, Observe,
//     Gone, Load and Store.
//  3. An entry may be visible before its Acquire returns, and that Acquire may
//     still fail. Nobody may count on presence alone.
//  4. [ErrUnavailable] from Store, Withdraw or Release means "perhaps done".
//     A caller may repeat, and a repeat finds its own earlier effect instead of
//     making a second one.
//  5. Done closes by the holder's own monotonic clock, counted from when the
//     last answered request was sent, no later than the earliest moment at
//     which another claim can be admitted.
//  6. After an error Acquire leaves no entry while the session lives: the
//     clean-up is retried in the background, never on the caller's dead ctx.
//     No entry is ever admitted that has no owner.
//  7. When ctx ends and the claim is admitted at the same moment the cancel
//     wins and the grant is given back. A ctx that has already ended fails.
//  8. A watch that ends, a session that ends, a closed client: an error, never
//     a grant.
//
// A service that cannot be reached is waited for, but not for ever: once a
// driver has had no answer for Info.Expiry its calls return [ErrUnavailable].
package backend

import (
	"context"
	"time"
)

// A Backend is one client of a coordination service, with one session of its
// own: when it closes, crashes or is cut off for longer than Info.Expiry, all
// its entries leave their lines.
type Backend interface {
	// Info says what this backend promises. It is constant and does no I/O.
	Info() Info

	// Acquire appends c to the line of p and waits until the rule admits it
	// (see [Blockers]), or ctx ends. The ctx bounds the wait only: ending it
	// later does not end the lease. With c.NoWait it answers [ErrBusy] instead
	// of waiting for another claim, and leaves nothing behind.
	Acquire(ctx context.Context, p Place, c Claim) (Lease, error)

	// Observe returns the line of p once its version differs from since. The
	// empty Version answers at once.
	Observe(ctx context.Context, p Place, since Version) (Roster, error)

	// Gone returns nil once no entry with this ID is in the line of p. It is
	// woken by that entry alone, so that many can wait for many without a herd.
	Gone(ctx context.Context, p Place, id string) error

	// Load returns the register of p once its version differs from since. The
	// empty Version answers at once. A register that was never stored, or was
	// removed, has nil Data and a non-empty Version that Store takes as prev.
	Load(ctx context.Context, p Place, since Version) (Value, error)

	// Store replaces the register of p, provided that its version is still
	// prev and that every entry named in alive is still in line; otherwise it
	// changes nothing and answers [ErrConflict]. All of that is one step. Nil
	// data removes the register. It returns the version it made.
	Store(ctx context.Context, p Place, data []byte, prev Version, alive ...string) (Version, error)

	// Close releases every lease, fails every call in progress with
	// [ErrClosed] and gives the session back to the service. It returns in
	// bounded time, with a mute service too, and may be called again.
	Close() error
}

// A Lease is an admitted claim.
type Lease interface {
	// ID names the entry in its line. It is unique among all entries the
	// place ever had, and has neither spaces nor slashes.
	ID() string

	// Token is the fencing token: positive, and greater than the token of
	// every conflicting lease of this place that was admitted before.
	Token() uint64

	// Deadline is until when the lease is certain without another word from
	// the service. It moves as the session is renewed; false means that there
	// is no such limit.
	Deadline() (time.Time, bool)

	// Done is closed when the lease ends, by release or by loss.
	Done() <-chan struct{}

	// Err is nil while held; then [ErrReleased], or [ErrLost] with its cause.
	// The lease of a closed Backend was released.
	Err() error

	// Downgrade turns an Exclusive claim into a Shared one in place: the
	// entry keeps its position, so nobody writes in between. It is ErrInvalid
	// for other modes, and does nothing for one that is Shared already. After an
	// error it may be done all the same, and can be asked for again.
	Downgrade(ctx context.Context) error

	// Withdraw releases the lease provided that the register of its place is
	// still at version v, in one step; otherwise it changes nothing and
	// answers [ErrConflict]. Together with Store's alive it makes "was
	// counted" and "withdrew" exclude each other.
	Withdraw(ctx context.Context, v Version) error

	// Release takes the entry out of its line. Whatever it answers, the lease
	// has ended for its owner: after an error the driver goes on removing the
	// entry in the background. A second Release is nil; the Release of a lost
	// lease is ErrLost.
	Release(ctx context.Context) error
}

// A Place is where claims of one kind and name meet.
type Place struct {
	Kind Kind
	Name string // see CheckName
}

// A Version identifies a state of a line or a register. Versions are opaque
// and comparable for equality only; the empty one means "none seen yet".
type Version string

// A Value is the state of a register.
type Value struct {
	Data    []byte // nil: there is none
	Version Version
}

// An Entry is a claim in line.
type Entry struct {
	ID       string
	Token    uint64 // grows with the order of arrival
	Claim    Claim
	Since    time.Time // by the owner's clock; zero where it is not known
	Admitted bool      // the rule admits it
}

// A Roster is the state of a line, in order of arrival. It is the caller's own.
type Roster struct {
	Entries []Entry
	Version Version
}

// Index returns the position of the entry with this ID, or -1.
func (r Roster) Index(id string) int {
	for i := range r.Entries {
		if r.Entries[i].ID == id {
			return i
		}
	}
	return -1
}

// A Wrapper is a Backend that adds something to another one.
type Wrapper interface {
	Backend
	Unwrap() Backend
}

// As finds an optional interface of b, through wrappers.
func As[T any](b Backend) (T, bool) {
	for b != nil {
		if t, ok := b.(T); ok {
			return t, true
		}
		w, ok := b.(Wrapper)
		if !ok {
			break
		}
		b = w.Unwrap()
	}
	var zero T
	return zero, false
}
