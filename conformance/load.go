package conformance

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/gocoord/coord/backend"
)

// load starts a Load.
func (c *client) load(who string, p backend.Place, since backend.Version) *attempt[backend.Value] {
	return begin(c.t, who, func(ctx context.Context) (backend.Value, error) { return c.b.Load(ctx, p, since) })
}

func registerLoadWakes(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Barrier)
	v := a.register(p)
	first := v.Version
	for i := range 5 {
		var waits []*attempt[backend.Value]
		for range 5 {
			waits = append(waits, a.load("Load", p, v.Version), b.load("Load", p, v.Version))
		}
		waits[0].waits()
		var data []byte
		if i != 2 {
			data = []byte(strconv.Itoa(i))
		}
		v.Version = b.store(p, data, v.Version)
		for _, w := range waits {
			if got := w.get(); got.Version != v.Version || !bytes.Equal(got.Data, data) || (got.Data == nil) != (data == nil) {
				t.Fatalf("Load woke with %#v at %q; want %#v at %q", got.Data, got.Version, data, v.Version)
			}
		}
		for a.register(p).Version != v.Version {
			time.Sleep(time.Millisecond)
		}
	}
	a.load("Load since long ago", p, first).get()
}

func registerLoadWaits(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Barrier)
	v := a.register(p)
	w := a.load("Load of what does not change", p, v.Version)
	l := b.take("a member", p, presentClaim)
	t.give("the member", l)
	other := backend.Place{Kind: p.Kind, Name: p.Name + "-other"}
	b.store(other, []byte("x"), b.register(other).Version)
	w.waits()
	old := v.Version
	v.Version = b.store(p, []byte("x"), old)
	w.get()
	w = a.load("Load of what does not change", p, v.Version)
	b.conflicts("on an old version", p, old)
	w.waits()
}

func registerLoadContext(t *T) {
	c := t.open()
	p := t.place(backend.Barrier)
	v := c.register(p)
	w := c.load("Load", p, v.Version)
	w.waits()
	w.cancel()
	w.fails(context.Canceled)
	ctx, cancel := context.WithTimeout(t.ctx, 30*time.Millisecond)
	defer cancel()
	begin(t, "Load with a deadline", func(context.Context) (backend.Value, error) {
		return c.b.Load(ctx, p, v.Version)
	}).fails(context.DeadlineExceeded)
	if _, err := c.b.Load(ctx, p, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Load with a ctx that has ended: %v; want its error", err)
	}
	if _, err := c.b.Store(ctx, p, []byte("x"), v.Version); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Store with a ctx that has ended: %v; want its error", err)
	}
	if after := c.register(p); after.Data != nil {
		t.Errorf("Store with a ctx that has ended left %q", after.Data)
	}
}

func registerNeverGoesBack(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Barrier)
	const last = 60
	reader := beginError(t, "the reader", func(ctx context.Context) error {
		var since backend.Version
		for seen, i := 0, 0; seen < last; i++ {
			if i%3 == 2 {
				since = ""
			}
			v, err := b.b.Load(ctx, p, since)
			if err != nil {
				return err
			}
			n, _ := strconv.Atoi(string(v.Data))
			if n < seen {
				t.Errorf("Load returned %d after %d", n, seen)
			}
			seen, since = n, v.Version
		}
		return nil
	})
	version := a.register(p).Version
	for i := 1; i <= last; i++ {
		version = a.store(p, []byte(strconv.Itoa(i)), version)
		if v := a.register(p); v.Version != version {
			t.Fatalf("Load after Store %d returned %q at %q; want its own version", i, v.Data, v.Version)
		}
	}
	reader.get()
}

func registerLargest(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Barrier)
	data := make([]byte, backend.MaxRegister)
	for i := range data {
		data[i] = byte(i * 7)
	}
	version := a.store(p, data, a.register(p).Version)
	if v := b.register(p); !bytes.Equal(v.Data, data) {
		t.Errorf("Load returned %d bytes; want %d as they were stored", len(v.Data), len(data))
	}
	if _, err := a.b.Store(t.ctx, p, make([]byte, backend.MaxRegister+1), version); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("Store of MaxRegister+1 bytes: %v; want ErrInvalid", err)
	}
	a.store(p, nil, version)
}

func registerNoEntry(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Barrier)
	version := a.store(p, []byte("x"), a.register(p).Version)
	b.inLine(p, 0)
	t.give("a member", b.take("a member", p, presentClaim))
	b.free(p)
	if v := a.register(p); v.Version != version || string(v.Data) != "x" {
		t.Errorf("after a member came and went the register is %q at %q; want \"x\" at %q", v.Data, v.Version, version)
	}
	a.store(p, nil, version)
}

func registerOutlivesItsWriter(t *T) {
	a, b := t.open(), t.open()
	p := t.place(backend.Barrier)
	version := a.store(p, []byte("x"), a.register(p).Version)
	a.shut()
	if v := b.register(p); v.Version != version || string(v.Data) != "x" {
		t.Errorf("the register is %q at %q; want \"x\" at %q", v.Data, v.Version, version)
	}
	b.store(p, nil, version)
}

func registerDurable(t *T) {
	a := t.open()
	p := t.place(backend.Barrier)
	version := a.store(p, []byte("x"), a.register(p).Version)
	a.shut()
	b := t.open()
	if v := b.register(p); v.Version != version || string(v.Data) != "x" {
		t.Errorf("the register is %q at %q; want \"x\" at %q", v.Data, v.Version, version)
	}
	b.store(p, nil, version)
}
