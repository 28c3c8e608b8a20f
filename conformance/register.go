package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/gocoord/coord/backend"
)

func registerChecks() []check {
	barrier := []need{kind(backend.Barrier)}
	return []check{
		{name: "Register/Absent", need: barrier, fn: registerAbsent,
			why: "a register that was never stored, or was removed, has nil Data and a non-empty Version that Store takes as prev"},
		{name: "Register/StoreAndLoad", need: barrier, fn: registerStoreAndLoad,
			why: "Store replaces the register and returns the version it made; every client loads what was stored"},
		{name: "Register/AnyBytes", need: barrier, fn: registerAnyBytes,
			why: "a register holds any bytes, none at all too, which is not the same as no register"},
		{name: "Register/Prev", need: barrier, fn: registerPrev,
			why: "Store changes nothing and answers ErrConflict unless the register's version is still prev"},
		{name: "Register/Alive", need: barrier, fn: registerAlive,
			why: "Store changes nothing and answers ErrConflict unless every entry named in alive is still in line"},
		{name: "Register/AliveWaiters", need: []need{kind(backend.Mutex)}, fn: registerAliveWaiters,
			why: "an entry that waits is in line, too"},
		{name: "Register/AliveMany", need: barrier, fn: registerAliveMany,
			why: "a service's limits on one transaction do not show in alive"},
		{name: "Register/CompareAndSet", need: barrier, fn: registerCompareAndSet,
			why: "Store is one step: of many that replace the same version one succeeds"},
		{name: "Register/LoadWakes", need: barrier, fn: registerLoadWakes,
			why: "Load returns once the register's version differs from since"},
		{name: "Register/LoadWaits", need: barrier, fn: registerLoadWaits,
			why: "Load waits while the register is as it was"},
		{name: "Register/LoadContext", need: barrier, fn: registerLoadContext,
			why: "a watch ends with its ctx, with its error; Load and Store with a ctx that has ended fail"},
		{name: "Register/NeverGoesBack", need: barrier, fn: registerNeverGoesBack,
			why: "a client never goes back in time between Load and Store"},
		{name: "Register/Largest", need: barrier, fn: registerLargest,
			why: "a register holds MaxRegister bytes, and more are ErrInvalid"},
		{name: "Register/NoEntry", need: barrier, fn: registerNoEntry,
			why: "a register is not in line, and lines come and go without touching it"},
		{name: "Register/OutlivesItsWriter", need: barrier, fn: registerOutlivesItsWriter,
			why: "a register stays when the client that stored it closes"},
		{name: "Register/Durable", need: append(barrier, durable), fn: registerDurable,
			why: "Info.Durable: registers outlive all clients"},
	}
}

// conflicts wants a Store to be refused, and the register to stay as it was.
func (c *client) conflicts(why string, p backend.Place, prev backend.Version, alive ...string) {
	before := c.register(p)
	v, err := c.b.Store(c.t.ctx, p, []byte("refused"), prev, alive...)
	if !errors.Is(err, backend.ErrConflict) {
		c.t.Errorf("Store %s: %q, %v; want ErrConflict", why, v, err)
	}
	if after := c.register(p); after.Version != before.Version || !bytes.Equal(after.Data, before.Data) {
		c.t.Errorf("Store %s changed the register from %q to %q", why, before.Data, after.Data)
	}
}

func registerAbsent(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Barrier)
	for round := range 3 {
		for _, c := range []*client{a, b} {
			v := c.load("Load of an absent register", p, "").get()
			if v.Data != nil || v.Version == "" {
				t.Fatalf("round %d: an absent register is %q at version %q; want nil and a version", round, v.Data, v.Version)
			}
		}
		stored := a.store(p, []byte("x"), a.register(p).Version)
		removed := b.store(p, nil, stored)
		if v := b.register(p); v.Version != removed || v.Data != nil {
			t.Fatalf("a removed register is %q at %q; want nil at %q, which Store returned", v.Data, v.Version, removed)
		}
		a.conflicts("on the version before the removal", p, stored)
		for a.register(p).Version != removed {
			time.Sleep(time.Millisecond)
		}
	}
}

func registerStoreAndLoad(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Barrier)
	version := a.register(p).Version
	seen := map[backend.Version]bool{version: true}
	for i := range 10 {
		want := strconv.Itoa(i / 2) // the same data twice is two versions
		version = a.store(p, []byte(want), version)
		if seen[version] {
			t.Fatalf("Store %d made a version that was there before", i)
		}
		seen[version] = true
		v := a.register(p)
		if v.Version != version || string(v.Data) != want {
			t.Fatalf("Load after Store is %q at %q; want %q at %q", v.Data, v.Version, want, version)
		}
		for v = b.register(p); v.Version != version; v = b.register(p) {
			b.load("Load until the new version", p, v.Version).get()
		}
		if string(v.Data) != want {
			t.Fatalf("another client loads %q at %q; want %q", v.Data, v.Version, want)
		}
		a, b = b, a
	}
}

func registerAnyBytes(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Barrier)
	version := a.register(p).Version
	for _, data := range [][]byte{{}, {0}, []byte("\xff\x00\n\r\xfe"), []byte("null"), bytes.Repeat([]byte{0}, 1000), {}} {
		mine := bytes.Clone(data)
		if mine == nil {
			mine = []byte{}
		}
		version = a.store(p, mine, version)
		clear(mine) // the caller may use its slice again
		v := b.register(p)
		for v.Version != version {
			v = b.load("Load until the new version", p, v.Version).get()
		}
		if v.Data == nil || !bytes.Equal(v.Data, data) {
			t.Errorf("Load is %#v; want %#v, and nil only for no register", v.Data, data)
		}
		clear(v.Data) // nor does a reader's slice belong to the service
		if again := b.register(p); !bytes.Equal(again.Data, data) {
			t.Errorf("a second Load is %#v; want %#v", again.Data, data)
		}
	}
}

func registerPrev(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Barrier)
	absent := a.register(p).Version
	first := a.store(p, []byte("first"), absent)
	b.conflicts("on the version of the absent register", p, absent)
	second := b.store(p, []byte("second"), first)
	a.conflicts("on an old version", p, first)
	if _, err := a.b.Store(t.ctx, p, nil, first); !errors.Is(err, backend.ErrConflict) {
		t.Errorf("removal on an old version: %v; want ErrConflict", err)
	}
	if v := a.register(p); string(v.Data) != "second" || v.Version != second {
		t.Errorf("the register is %q at %q; want \"second\" at %q", v.Data, v.Version, second)
	}
}

func registerAlive(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Barrier)
	m1, m2, m3 := a.take("m1", p, presentClaim), b.take("m2", p, presentClaim), b.take("m3", p, presentClaim)
	absent := a.register(p).Version
	version := a.store(p, []byte("1"), absent, m1.ID(), m2.ID(), m3.ID())
	version = a.store(p, []byte("2"), version, m3.ID(), m1.ID(), m3.ID()) // any order, even twice
	t.give("m2", m2)
	a.gone("Gone of m2", p, m2.ID()).get()
	a.conflicts("with one of three gone", p, version, m1.ID(), m2.ID(), m3.ID())
	a.conflicts("with a stranger", p, version, m1.ID(), "stranger")
	a.conflicts("on an old version with all alive", p, absent, m1.ID())
	version = a.store(p, []byte("3"), version, m1.ID(), m3.ID())
	t.give("m1", m1)
	t.give("m3", m3)
	b.free(p)
	b.conflicts("with all gone", p, version, m1.ID())
	b.store(p, nil, version)
}

func registerAliveWaiters(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Mutex)
	holder := a.take("the holder", p, exclusiveClaim)
	w := b.queue(2, "the waiter", p, exclusiveClaim)
	waiter := a.inLine(p, 2)[1].ID
	version := a.store(p, []byte("1"), a.register(p).Version, holder.ID(), waiter)
	w.cancel()
	w.fails(context.Canceled)
	a.gone("Gone of the waiter", p, waiter).get()
	a.conflicts("with the waiter gone", p, version, holder.ID(), waiter)
	a.store(p, nil, version, holder.ID())
}

func registerAliveMany(t *T) {
	n := 300
	if !testing.Short() && !t.h.small {
		n = 1000
	}
	cs := t.opens(4)
	p := t.place(backend.Barrier)
	var entering []*attempt[backend.Lease]
	for i := range n {
		entering = append(entering, cs[i%4].acquire("a member", p, presentClaim))
		if len(entering)%50 == 0 {
			entering[len(entering)-1].get()
		}
	}
	ids := make([]string, n)
	var last backend.Lease
	for i, a := range entering {
		last = a.get()
		ids[i] = last.ID()
	}
	c := cs[0]
	version := c.store(p, []byte("all"), c.register(p).Version, ids...)
	t.give("the last member", last)
	c.gone("Gone of the last member", p, last.ID()).get()
	c.conflicts(fmt.Sprintf("with one of %d gone", n), p, version, ids...)
	c.store(p, nil, version, ids[:n-1]...)
}

func registerCompareAndSet(t *T) {
	cs := t.opens(4)
	p := t.place(backend.Barrier)
	const workers, each = 8, 8
	var all []*attempt[struct{}]
	for i := range workers {
		c := cs[i%4]
		all = append(all, beginError(t, "one who counts", func(ctx context.Context) error {
			for range each {
				if err := c.increment(ctx, p); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for _, a := range all {
		if !within(t.patience()/2, a.done) || a.err != nil {
			t.Fatalf("one who counts did not end well: %v", a.outcome())
		}
	}
	v := cs[0].register(p)
	if string(v.Data) != strconv.Itoa(workers*each) {
		t.Errorf("the register counted to %s; want %d", v.Data, workers*each)
	}
}

// increment adds one to a number in a register.
func (c *client) increment(ctx context.Context, p backend.Place) error {
	for {
		v, err := c.b.Load(ctx, p, "")
		if err != nil {
			return err
		}
		n, _ := strconv.Atoi(string(v.Data))
		_, err = c.b.Store(ctx, p, []byte(strconv.Itoa(n+1)), v.Version)
		if !errors.Is(err, backend.ErrConflict) {
			return err
		}
	}
}
