package conformance

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/gocoord/coord/backend"
)

func infoChecks() []check {
	return []check{
		{name: "Info/AsExpected", fn: infoAsExpected,
			why: "Info promises what Harness.Expect says, so that no promise is weakened unseen"},
		{name: "Info/Constant", fn: infoConstant,
			why: "Info is constant: the same for all clients of a service, and after Close"},
		{name: "Info/Sensible", fn: infoSensible,
			why: "Info names the driver and a scope, and no kind twice"},
		{name: "Info/URL", need: []need{configURL, kind(backend.Mutex)}, fn: infoURL,
			why: "a client opened by the config URL is one more client of the same service, with the same promises"},
		{name: "Info/OtherKindsUnsupported", fn: infoOtherKinds,
			why: "what is not among Info.Kinds answers ErrUnsupported, and leaves nothing"},
	}
}

func infoAsExpected(t *T) {
	got, want := t.open().b.Info(), t.h.Expect
	got.Service, want.Service = "", ""
	slices.Sort(got.Kinds)
	want.Kinds = slices.Sorted(slices.Values(want.Kinds))
	if len(got.Kinds) == 0 && len(want.Kinds) == 0 {
		got.Kinds, want.Kinds = nil, nil
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Info is\n%+v; Harness.Expect says\n%+v", got, want)
	}
}

func infoConstant(t *T) {
	a, b := t.open(), t.open()
	mine, other := a.b.Info(), b.b.Info()
	first := fmt.Sprintf("%+v", mine)
	mine.Service, other.Service = "", "" // by another way, perhaps
	if !reflect.DeepEqual(mine, other) {
		t.Errorf("Info of a second client is\n%+v; that of the first is\n%+v", other, mine)
	}
	a.shut()
	if after := fmt.Sprintf("%+v", a.b.Info()); after != first {
		t.Errorf("Info after Close is\n%s; before it was\n%s", after, first)
	}
}

func infoSensible(t *T) {
	info := t.open().b.Info()
	if info.Name == "" {
		t.Errorf("Info.Name is empty")
	}
	if info.Scope < backend.Process || info.Scope > backend.Network {
		t.Errorf("Info.Scope is %v", info.Scope)
	}
	if info.Expiry < 0 || info.Poll < 0 {
		t.Errorf("Expiry is %v and Poll %v; want neither below 0", info.Expiry, info.Poll)
	}
	seen := make(map[backend.Kind]bool)
	for _, k := range info.Kinds {
		if seen[k] || !slices.Contains(backend.Kinds(), k) {
			t.Errorf("Info.Kinds is %v; want kinds that exist, each once", info.Kinds)
		}
		seen[k] = true
	}
}

func infoOtherKinds(t *T) {
	c := t.open()
	for _, k := range backend.Kinds() {
		if t.h.Expect.Supports(k) {
			continue
		}
		l, err := c.b.Acquire(t.ctx, t.place(k), claimFor(k))
		if !errors.Is(err, backend.ErrUnsupported) {
			t.Errorf("Acquire of a %v: %v, %v; want ErrUnsupported", k, l, err)
		}
	}
}

func configURL(h Harness) string {
	if h.URL == "" {
		return "the harness has no URL"
	}
	return ""
}

func infoURL(t *T) {
	a := t.open()
	opener, err := backend.Parse(t.h.URL)
	t.ok("Parse of Harness.URL", err)
	b, err := opener(t.ctx)
	t.ok("opening Harness.URL", err)
	t.Cleanup(func() { _ = b.Close() })
	got, want := b.Info(), a.b.Info()
	got.Service, want.Service = "", ""
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Info by URL is\n%+v; that of Harness.Open's client is\n%+v", got, want)
	}
	lease := a.take("the holder", t.place(backend.Mutex), exclusiveClaim)
	roster, err := b.Observe(t.ctx, t.place(backend.Mutex), "")
	if err != nil || roster.Index(lease.ID()) != 0 {
		t.Errorf("Observe by URL: %s, %v; want the holder, a client of Harness.Open", show(roster.Entries), err)
	}
}

// claimFor returns a claim as package coord makes it for a kind.
func claimFor(k backend.Kind) backend.Claim {
	switch k {
	case backend.Semaphore:
		return backend.Claim{Mode: backend.Permit, Weight: 1, Limit: 3}
	case backend.Group, backend.Barrier, backend.Latch:
		return backend.Claim{Mode: backend.Presence}
	}
	return backend.Claim{Mode: backend.Exclusive}
}
