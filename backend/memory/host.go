package memory

import (
	"bytes"
	"context"
	"math"
	"time"

	"github.com/gocoord/coord/backend"
)

// A Host is a space that a server keeps for clients outside of the process. It
// is for drivers that serve this engine over a connection: what their clients
// claim is entered with a callback instead of a goroutine that waits, told to a
// [Recorder] before it takes effect, and restored by the next server.
type Host struct {
	b *Backend // what is entered belongs to it
}

// A Recorder writes down what the next server has to know. It is called under
// the lock of the place, one call at a time for each place, and must not call
// the space.
type Recorder interface {
	// Enter is called before e is put in line. Its error refuses the claim.
	Enter(e *Entry) error
	// Leave is called when e leaves its line, before that admits others.
	Leave(e *Entry)
	// Downgrade is called when e becomes Shared, before that admits others.
	Downgrade(e *Entry)
	// Store is called before the register of p changes to data, which is nil
	// when it is removed. Its error keeps the register as it is.
	Store(p backend.Place, data []byte, version uint64, tag any) error
	// Reserve is called when the counter of tokens reaches what was reserved
	// so far, and returns the next such mark. Whatever is below it must never
	// be counted again.
	Reserve(count uint64) uint64
}

// An Entry is a claim that a Host entered.
type Entry struct {
	Tag      any // the owner's
	admitted func()
	lease    lease
}

// NewHost returns an empty space whose counters go on after start and are
// reserved up to the mark.
func NewHost(r Recorder, start, mark uint64) *Host {
	s := newSpace(nextPrivate())
	for i := range s.shards {
		sh := &s.shards[i]
		sh.recorder, sh.count, sh.reserved = r, start, mark
	}
	return &Host{newBackend(s, false)}
}

// Local returns a client inside the process. Its claims are not recorded: they
// end with the process, and so with the space.
func (h *Host) Local() *Backend { return h.b.Join() }

// Backend is the client that all entries belong to, for reading and storing on
// behalf of their owners.
func (h *Host) Backend() *Backend { return h.b }

// Close fails all calls in progress on the space's own client. The entries are
// forgotten and not left, so that the Recorder keeps them for the next server.
func (h *Host) Close() {
	if !h.b.closed.Swap(true) {
		close(h.b.done)
	}
}

// Enter puts a claim in line, and reports whether it was admitted at once. If
// it was not, admitted is called when it is, outside of all locks, unless it is
// removed before. A claim with NoWait is ErrBusy instead of waiting.
func (h *Host) Enter(p backend.Place, c backend.Claim, tag any, admitted func()) (e *Entry, now bool, err error) {
	if err := p.Check(); err != nil {
		return nil, false, err
	}
	if err := c.Check(); err != nil {
		return nil, false, err
	}
	e = &Entry{Tag: tag, admitted: admitted}
	l, err := h.b.enqueue(p, c, e)
	if err != nil {
		return nil, false, err
	}
	return e, l.ready == nil, nil
}

// Restore enters a claim as another server had it, at the end of its line and
// without recording it. It is for the time before anybody uses the space.
func (h *Host) Restore(p backend.Place, c backend.Claim, token uint64, since time.Time, tag any, admitted func()) (e *Entry, now bool) {
	sh, k := h.b.space.at(p)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	ln := sh.line(k)
	e = &Entry{Tag: tag, admitted: admitted}
	c.Data = bytes.Clone(c.Data)
	e.lease = lease{backend: h.b, line: ln, token: token, since: since.UnixNano(), claim: c, hosted: e}
	now = ln.admits(c)
	ln.push(&e.lease)
	if now {
		ln.admit(&e.lease)
	}
	ln.changed()
	return e, now
}

// RestoreRegister sets a register as another server had it.
func (h *Host) RestoreRegister(p backend.Place, data []byte, version uint64, tag any) {
	sh, k := h.b.space.at(p)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	ln := sh.line(k)
	ln.register, ln.registerVersion, ln.registerTag = data, version, tag
}

// Store is Backend.Store, for the owner of tag. A repeat, that is one with the
// tag of the Store that made the register what it is, finds its own version.
func (h *Host) Store(ctx context.Context, tag any, p backend.Place, data []byte, prev backend.Version, alive ...string) (backend.Version, error) {
	if err := backend.ContextError(ctx); err != nil {
		return "", err
	}
	if err := p.Check(); err != nil {
		return "", err
	}
	if err := backend.CheckRegister(data); err != nil {
		return "", err
	}
	return h.b.store(p, data, prev, alive, tag)
}

// Place says where the entry is in line.
func (e *Entry) Place() backend.Place { return e.lease.place() }

// Token is its arrival number.
func (e *Entry) Token() uint64 { return e.lease.token }

// Claim is what it was entered with, with the Mode it has now. It is for the
// Recorder and for the owner, who must not use it beside Downgrade.
func (e *Entry) Claim() backend.Claim { return e.lease.claim }

// Since is when it was entered.
func (e *Entry) Since() time.Time { return time.Unix(0, e.lease.since) }

// Admitted reports whether the rule admits it.
func (e *Entry) Admitted() bool {
	mu := &e.lease.line.shard.mu
	mu.Lock()
	defer mu.Unlock()
	return e.lease.state == held
}

// Remove takes the entry out of its line, if it is there.
func (e *Entry) Remove() { _ = e.lease.remove(backend.ErrReleased) }

// Downgrade is that of backend.Lease.
func (e *Entry) Downgrade() error { return e.lease.downgrade() }

// Withdraw is that of backend.Lease.
func (e *Entry) Withdraw(v backend.Version) error { return e.lease.withdraw(v) }

// unreserved is the mark of spaces that nobody records.
const unreserved = math.MaxUint64
