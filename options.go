package coord

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/gocoord/coord/backend"
)

// An Option configures a Client.
type Option func(*options)

type options struct {
	owner          string
	releaseTimeout time.Duration
	logger         *slog.Logger
	observer       Observer
	requirements   []Requirement
}

const defaultReleaseTimeout = 5 * time.Second

func defaults() options {
	return options{owner: defaultOwner(), releaseTimeout: defaultReleaseTimeout}
}

var defaultOwner = sync.OnceValue(func() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
})

// WithOwner sets how the client's claims are signed for people who look at
// [Client.Inspect] or a list of members. The default is host name and process
// ID. It has no part in deciding who holds what.
func WithOwner(owner string) Option { return func(o *options) { o.owner = owner } }

// WithReleaseTimeout bounds how long Release, and the clean-up after a
// cancelled wait, wait for an answer of the service; 5 s by default. After it
// the clean-up goes on in the background.
func WithReleaseTimeout(d time.Duration) Option {
	return func(o *options) {
		if d > 0 {
			o.releaseTimeout = d
		}
	}
}

// WithLogger makes the client log what its caller may not see: a hold that was
// lost, as a warning, and the course of all others at debug level.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.logger = l } }

// WithObserver makes the client report what happens to its claims, for metrics
// and traces.
func WithObserver(observe Observer) Option { return func(o *options) { o.observer = observe } }

// An Observer receives events. It is called on the goroutine at work, must not
// block, and may be called concurrently.
type Observer func(Event)

// An Event is a step in the life of a claim.
type Event struct {
	Type  EventType
	Kind  backend.Kind
	Name  string
	Token uint64        // 0 for EventGaveUp
	Wait  time.Duration // for EventAcquired and EventGaveUp: how long the claim waited
	Held  time.Duration // for EventReleased and EventLost: how long it was held
	Err   error         // for EventGaveUp and EventLost
}

// An EventType says which step an Event is.
type EventType uint8

// The types of events.
const (
	EventAcquired EventType = iota + 1
	EventGaveUp
	EventReleased
	EventLost
)

var eventTypes = [...]string{EventAcquired: "acquired", EventGaveUp: "gave up", EventReleased: "released", EventLost: "lost"}

// String is the type's name in logs.
func (t EventType) String() string {
	if t < EventAcquired || int(t) >= len(eventTypes) {
		return fmt.Sprintf("event(%d)", uint8(t))
	}
	return eventTypes[t]
}

// A Requirement is what an application needs of its backend.
type Requirement struct {
	Scope   backend.Scope  // at least this
	FIFO    bool           // order of arrival
	Fencing bool           // tokens that grow over crashes and restarts
	Durable bool           // registers that outlive all clients
	Expiry  time.Duration  // a crashed holder is gone within it; 0: does not matter
	Poll    time.Duration  // looks at least this often, or is told; 0: does not matter
	Kinds   []backend.Kind // all of these
}

// Require refuses, as ErrUnsupported, a backend that promises less: at
// start-up, where a wrong URL is seen, and not at night, where it hurts.
func Require(r Requirement) Option {
	return func(o *options) { o.requirements = append(o.requirements, r) }
}

// unmet reports everything that is required and not promised.
func (o *options) unmet(info backend.Info) error {
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%w: backend %s "+format, append([]any{ErrUnsupported, info.Name}, args...)...))
		}
	}
	for _, r := range o.requirements {
		need(info.Scope >= r.Scope, "coordinates within one %s only, and %s is required", info.Scope, r.Scope)
		need(info.FIFO || !r.FIFO, "does not keep the order of arrival")
		need(info.Fencing || !r.Fencing, "has no fencing tokens that outlive a restart")
		need(info.Durable || !r.Durable, "does not keep registers when all clients are gone")
		need(r.Expiry == 0 || info.Expiry <= r.Expiry, "frees a crashed holder after %v, and %v is required", info.Expiry, r.Expiry)
		need(r.Poll == 0 || info.Poll <= r.Poll, "looks every %v, and %v is required", info.Poll, r.Poll)
		for _, k := range r.Kinds {
			need(info.Supports(k), "has no %s", k)
		}
	}
	return gather(errs...)
}
