package backend

import (
	"bytes"
	"fmt"
	"time"
)

// A Kind says which primitive a place belongs to. Names of different kinds do
// not meet, except that Mutex and RWMutex are one and the same lock.
type Kind uint8

// The kinds of places.
const (
	Mutex Kind = iota + 1
	RWMutex
	Semaphore
	Election
	Group
	Barrier
	Latch
)

var kinds = [...]struct{ name, dir string }{
	Mutex:     {"lock", "locks"},
	RWMutex:   {"rwlock", "locks"},
	Semaphore: {"semaphore", "semaphores"},
	Election:  {"election", "elections"},
	Group:     {"group", "groups"},
	Barrier:   {"barrier", "barriers"},
	Latch:     {"latch", "latches"},
}

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{Mutex, RWMutex, Semaphore, Election, Group, Barrier, Latch}
}

// String is the kind's name in messages and on the command line.
func (k Kind) String() string {
	if !k.valid() {
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
	return kinds[k].name
}

// Dir is the name of the directory that a service keeps the kind's places in.
// Kinds with the same Dir share their places.
func (k Kind) Dir() string {
	if !k.valid() {
		return k.String()
	}
	return kinds[k].dir
}

func (k Kind) valid() bool { return k >= Mutex && int(k) < len(kinds) }

// String describes the place for a message, as in `lock "orders"`.
func (p Place) String() string { return fmt.Sprintf("%s %q", p.Kind, p.Name) }

// Check reports why p is no place, as ErrInvalid.
func (p Place) Check() error {
	if !p.Kind.valid() {
		return fmt.Errorf("%w: unknown kind %d", ErrInvalid, uint8(p.Kind))
	}
	return CheckName(p.Name)
}

// A Mode says whom a claim waits for. See Blockers.
type Mode uint8

// The modes of claims.
const (
	Exclusive Mode = iota + 1 // waits for everyone ahead
	Shared                    // waits for every Exclusive ahead
	Permit                    // waits for every Exclusive ahead, and for room under Limit
	Presence                  // waits for nobody
)

var modes = [...]string{Exclusive: "exclusive", Shared: "shared", Permit: "permit", Presence: "presence"}

// String is the mode's name in messages.
func (m Mode) String() string {
	if m < Exclusive || int(m) >= len(modes) {
		return fmt.Sprintf("mode(%d)", uint8(m))
	}
	return modes[m]
}

// Limits on what a claim and a register may carry, so that every service can
// take it in one request.
const (
	MaxData     = 64 << 10  // bytes in Claim.Data
	MaxOwner    = 255       // bytes in Claim.Owner
	MaxRegister = 512 << 10 // bytes in a register
)

// A Claim is what somebody wants of a place.
type Claim struct {
	Mode   Mode
	Weight int64  // Permit: how many of Limit, at least 1
	Limit  int64  // Permit: how many there are, the same for all of a place. Presence: kept for the reader
	Owner  string // who, for people
	Data   []byte // what members and leaders publish
	NoWait bool   // ErrBusy instead of waiting for another claim
}

// Check reports why c can be admitted nowhere, as ErrInvalid.
func (c Claim) Check() error {
	switch {
	case c.Mode < Exclusive || c.Mode > Presence:
		return fmt.Errorf("%w: unknown %s", ErrInvalid, c.Mode)
	case c.Mode == Permit && c.Limit < 1:
		return fmt.Errorf("%w: a limit of %d permits, want at least 1", ErrInvalid, c.Limit)
	case c.Mode == Permit && c.Weight < 1:
		return fmt.Errorf("%w: %d permits asked for, want at least 1", ErrInvalid, c.Weight)
	case c.Mode == Permit && c.Weight > c.Limit:
		return fmt.Errorf("%w: %d permits asked for, and there are only %d", ErrInvalid, c.Weight, c.Limit)
	case len(c.Data) > MaxData:
		return fmt.Errorf("%w: %d bytes of data, want at most %d", ErrInvalid, len(c.Data), MaxData)
	case len(c.Owner) > MaxOwner:
		return fmt.Errorf("%w: an owner of %d bytes, want at most %d", ErrInvalid, len(c.Owner), MaxOwner)
	}
	return nil
}

// Clone returns a copy that shares nothing with c.
func (c Claim) Clone() Claim {
	c.Data = bytes.Clone(c.Data)
	return c
}

// CheckRegister reports why data does not fit a register, as ErrInvalid.
func CheckRegister(data []byte) error {
	if len(data) > MaxRegister {
		return fmt.Errorf("%w: %d bytes for a register, want at most %d", ErrInvalid, len(data), MaxRegister)
	}
	return nil
}

// A Scope says between whom a backend coordinates. Greater includes smaller.
type Scope uint8

// The scopes of backends.
const (
	Process Scope = iota + 1 // goroutines of one process; calls that wait for no other claim return at once
	Host                     // processes of one host
	Files                    // hosts that share a file system
	Network                  // all that reach the service
)

var scopes = [...]string{Process: "process", Host: "host", Files: "shared files", Network: "network"}

// String is the scope's name in messages.
func (s Scope) String() string {
	if s < Process || int(s) >= len(scopes) {
		return fmt.Sprintf("scope(%d)", uint8(s))
	}
	return scopes[s]
}

// Info is what a backend promises. The conformance suite holds it to it.
type Info struct {
	Name    string // of the driver: "memory", "etcd"
	Service string // which service, for people, never with a secret; the same for all clients that share places
	Scope   Scope
	FIFO    bool          // conflicting claims are admitted in order of arrival
	Fencing bool          // tokens grow over crashes and restarts of the service, too
	Durable bool          // registers outlive all clients
	Expiry  time.Duration // a crashed client's entries are gone within it; 0: at once
	Poll    time.Duration // the longest pause between two looks; 0: changes are pushed
	Kinds   []Kind        // what it supports; nil: everything
}

// Supports reports whether k is among the kinds.
func (i Info) Supports(k Kind) bool {
	if i.Kinds == nil {
		return k.valid()
	}
	for _, have := range i.Kinds {
		if have == k {
			return true
		}
	}
	return false
}
