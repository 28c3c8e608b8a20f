package conformance

import (
	"errors"
	"time"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
)

func sessionChecks() []check {
	rows := []check{
		{name: "Session/CrashedHolder", need: []need{crash, kind(backend.RWMutex)}, fn: sessionCrashedHolder,
			why: "a crashed client's holds are freed within Info.Expiry, and the token goes on growing"},
		{name: "Session/CrashedReader", need: []need{crash, kind(backend.RWMutex)}, fn: sessionCrashedReader,
			why: "a reader that crashed is not counted, and the other readers are"},
		{name: "Session/CrashedWaiter", need: []need{crash, kind(backend.RWMutex)}, fn: sessionCrashedWaiter,
			why: "a crashed client's place in line is freed within Info.Expiry"},
		{name: "Session/CrashedMember", need: []need{crash, kind(backend.Group)}, fn: sessionCrashedMember,
			why: "a member that crashed leaves its groups within Info.Expiry, and who waits for it is told"},
		{name: "Session/CrashedParty", need: []need{crash, kind(backend.Barrier)}, fn: sessionCrashedParty,
			why: "a party that crashed while it waited is not counted in a round"},
		{name: "Session/CrashedInside", need: []need{crash, kind(backend.Barrier)}, fn: sessionCrashedInside,
			why: "Leave does not wait for a member that crashed inside"},

		{name: "Session/ToldBeforeNext", need: []need{sever, forgotten, kind(backend.RWMutex)}, fn: sessionToldBeforeNext,
			why: "Done closes no later than the earliest moment at which another claim can be admitted, by the holder's own clock"},
		{name: "Session/LostThenLock", need: []need{sever, forgotten, kind(backend.RWMutex)}, fn: sessionLostThenLock,
			why: "after a loss Release is ErrLost and touches nobody, and the same client can lock again"},
		{name: "Session/LossEndsWith", need: []need{sever, forgotten, kind(backend.RWMutex)}, fn: sessionLossEndsWith,
			why: "when the hold is lost the ctx of With's f ends, and With reports the loss; a hold of All is lost with its part"},
		{name: "Session/Blip", need: []need{sever, expiry, kind(backend.RWMutex)}, fn: sessionBlip,
			why: "an interruption shorter than Info.Expiry loses nothing"},
		{name: "Session/SeveredWaiter", need: []need{sever, forgotten, kind(backend.RWMutex)}, fn: sessionSeveredWaiter,
			why: "a wait whose session ends is an error, never a grant, and leaves no ghost in line"},
		{name: "Session/SeveredWatch", need: []need{sever, kind(backend.Group)}, fn: sessionSeveredWatch,
			why: "a watch whose session ends is an error: Gone does not say that somebody has gone who is there"},
		{name: "Session/Unavailable", need: []need{sever, kind(backend.RWMutex)}, fn: sessionUnavailable,
			why: "a service that cannot be reached is waited for, but not for ever: after Info.Expiry, or the backend's own patience, calls return ErrUnavailable"},
		{name: "Session/Deadline", need: []need{sever, kind(backend.RWMutex)}, fn: sessionDeadline,
			why: "a ctx's deadline is honoured while the service cannot be reached, and the clean-up is made up for later"},
		{name: "Session/Release", need: []need{sever, forgotten, kind(backend.RWMutex)}, fn: sessionRelease,
			why: "a Release that gets no answer returns in bounded time; the hold has ended, and its entry goes when it can"},
		{name: "Session/Downgrade", need: []need{sever, expiry, kind(backend.RWMutex)}, fn: sessionDowngrade,
			why: "a Downgrade without an answer can be asked for again, and then all waiting readers are in"},
		{name: "Session/Close", need: []need{sever, forgotten, kind(backend.RWMutex)}, fn: sessionClose,
			why: "Close returns in bounded time with a mute service, too, and ends holds and waits"},
		{name: "Session/LostInside", need: []need{sever, forgotten, kind(backend.Barrier)}, fn: sessionLostInside,
			why: "who was lost inside a barrier is told by Done and Leave, and the others do not wait for it"},
	}
	return rows
}

func expiry(h Harness) string {
	if h.Expect.Expiry <= 0 {
		return "a session of this backend ends at once: there is no interruption shorter than it"
	}
	return ""
}

// forgotten is of rows in which the service lets others have what a client had
// that was silent for too long.
func forgotten(h Harness) string {
	if h.Expect.Expiry <= 0 {
		return "Info.Expiry is 0, so the service forgets a client when the system says that it has died, and never because it is silent: one that is cut off keeps its holds and its place, and nobody else gets them"
	}
	return ""
}

// forgets is how long the service may take to forget a client.
func (t *T) forgets() time.Duration { return t.h.Expect.Expiry + t.h.Slack }

// getWithin is get for what takes the end of a session.
func (a *attempt[V]) getWithin(limit time.Duration) V {
	if !within(limit, a.done) {
		a.t.Fatalf("%s still waits after %v", a.who, limit)
	}
	return a.get()
}

// lineWithin is inLine for what takes the end of a session.
func (c *client) lineWithin(p backend.Place, n int, limit time.Duration) {
	deadline := time.Now().Add(limit)
	for {
		line := c.now(p)
		if len(line) == n {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("after %v the line of %v is %s; want %d entries", limit, p, show(line), n)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// reached waits until a client that was cut off reaches the service again.
func (c *client) reached() {
	deadline := time.Now().Add(c.t.forgets())
	for {
		_, err := c.b.Load(c.t.ctx, c.t.place(backend.RWMutex), "")
		if err == nil {
			return
		}
		if !errors.Is(err, backend.ErrUnavailable) || time.Now().After(deadline) {
			c.t.Fatalf("%v after the cut has healed, Load: %v; want an answer", c.t.forgets(), err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// lost waits for the end of a hold by loss.
func (t *T) lost(who string, h interface {
	Done() <-chan struct{}
	Err() error
}) {
	if !within(t.forgets(), h.Done()) {
		t.Fatalf("%s: Done is open %v after it was cut off; want it closed", who, t.forgets())
	}
	if err := h.Err(); !errors.Is(err, coord.ErrLost) {
		t.Fatalf("%s: Err is %v; want ErrLost", who, err)
	}
}

func sessionCrashedHolder(t *T) {
	b := t.open()
	last := uint64(0)
	for range 3 {
		a := t.open()
		hold := a.lock("the holder that crashes").get()
		if hold.Token() <= last {
			t.Fatalf("a hold has token %d after %d; want a greater one", hold.Token(), last)
		}
		w := b.queued(b.lock("the next"), 2)
		a.crash()
		next := w.getWithin(t.forgets())
		if next.Token() <= hold.Token() {
			t.Fatalf("the next has token %d after the crashed one's %d; want a greater one", next.Token(), hold.Token())
		}
		last = next.Token()
		t.release("the next", next)
	}
	b.free(t.place(backend.RWMutex))
}

func sessionCrashedReader(t *T) {
	a, b, c := t.open(), t.open(), t.open()
	a.rlock("a reader that crashes").get()
	r := b.rlock("a reader that stays").get()
	w := c.queued(c.lock("a writer"), 3)
	a.crash()
	c.lineWithin(t.place(backend.RWMutex), 2, t.forgets())
	w.waits()
	t.held("the reader that stays", r)
	t.release("the reader that stays", r)
	w.get()
}

func sessionCrashedWaiter(t *T) {
	a, b := t.open(), t.open()
	r := b.rlock("a reader").get()
	a.queued(a.lock("a writer that crashes"), 2)
	w := b.queued(b.rlock("a reader behind it"), 3)
	a.crash()
	w.getWithin(t.forgets())
	t.held("the first reader", r)
	b.inLine(t.place(backend.RWMutex), 2)
}

func sessionCrashedMember(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Group)
	a.join("a member that crashes", "a").get()
	b.join("a member that stays", "b").get()
	line := b.inLine(p, 2)
	g := b.gone("Gone of the one that crashes", p, line[0].ID)
	a.crash()
	g.getWithin(t.forgets())
	if line := b.now(p); len(line) != 1 || string(line[0].Claim.Data) != "b" {
		t.Errorf("the line is %s; want the member that stays", show(line))
	}
}

func sessionCrashedParty(t *T) {
	a, b, c := t.open(), t.open(), t.open()
	p := t.place(backend.Barrier)
	a.enterQueued(1, "the party that crashes", 3)
	e2 := b.enterQueued(2, "the second party", 3)
	a.crash()
	b.lineWithin(p, 1, t.forgets())
	e3 := c.enterQueued(2, "the third party", 3)
	e2.waits()
	e4 := b.enter("the fourth party", 3)
	t.together(e2.get(), e3.get(), e4.get())
	t.leaveAll(e2.value, e3.value, e4.value)
	b.empty(p)
}

func sessionCrashedInside(t *T) {
	a, b, c := t.open(), t.open(), t.open()
	p := t.place(backend.Barrier)
	e1, e2, e3 := a.enter("the one that crashes", 3), b.enter("b", 3), c.enter("c", 3)
	t.together(e1.get(), e2.get(), e3.get())
	l2 := t.leave("b", e2.value)
	b.inLine(p, 2)
	a.crash()
	l3 := t.leave("c", e3.value)
	l2.getWithin(t.forgets())
	l3.getWithin(t.forgets())
	b.empty(p)
}
