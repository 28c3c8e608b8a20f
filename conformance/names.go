package conformance

import (
	"context"
	"errors"
	"strings"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
)

func nameChecks() []check {
	lock := []need{kind(backend.Mutex)}
	return []check{
		{name: "Names/Accepted", need: lock, fn: namesAccepted,
			why: "every name that CheckName accepts works, and no two of them are the same lock"},
		{name: "Names/Rejected", fn: namesRejected,
			why: "a name that CheckName refuses is ErrInvalid for everything, at first use"},
		{name: "Names/Places", need: []need{kind(backend.Barrier), kind(backend.Group)}, fn: namesPlaces,
			why: "lines and registers of awkward names are as apart as their locks"},
	}
}

// acceptable are awkward names, each another one. They are used as they are,
// since what stands before and behind an awkward part can make it tame.
func acceptable() []string {
	return []string{
		"a", "A", "a/b", "ab", "a%2Fb", "a%2fb", "a%252Fb", "a b", "a+b", "a%20b", "*", "?", "a?b=c", "a#b", "a@b", "a:b", "a;b", "a,b", "a&b",
		"zookeeper", "zookeeper/quota", "locks", "lock-1", "lock-0000000001", "a-lock-0000000001", "_c_0-lock-", "-", "--help", "-rf", "~", "~root",
		".hidden", "..hidden", "a..b", "...", "a/.b", "CON", "con", "nul", "a.lock", "a.lck", "a.tmp", ".nfs000000000000000100000001", "$HOME", "`id`", "'a'", `"a"`, `{"a":"b"}`,
		`a\b`, `..\x`, "<a>", "|", "%", "%%", "%00", "%2E%2E", "\u00e9", "e\u0301", "\u200b", "\u202ea", "\ufeffa", "\U0001f512", "日本語", "ß", "SS",
		strings.Repeat("x", 255), strings.Repeat("x", 254) + "y", strings.Repeat("x", 254), strings.Repeat("x/", 127) + "x", strings.Repeat("é", 127), strings.Repeat("%", 255),
		strings.Repeat("ab", 120) + "c", strings.Repeat("ab", 120) + "d",
	}
}

func unacceptable() []string {
	return []string{
		"", "/", "//", "a/", "/a", "a//b", ".", "..", "./a", "../a", "a/.", "a/..", "a/./b", "a/../b", "a\x00b", "a\nb", "a\r", "\t", "a\x7f", "a\u0085b", "\u009b",
		"\xff\xfe", "a\xc3", "\xed\xa0\x80", strings.Repeat("x", 256), strings.Repeat("é", 128), strings.Repeat("x/", 128),
	}
}

func namesAccepted(t *T) {
	a, b := t.open(), t.open()
	var holds []*coord.Hold
	for _, name := range acceptable() {
		hold, err := a.Locker(name).TryLock(t.ctx)
		if err != nil {
			t.Fatalf("TryLock(%q) while all of the names before are held: %v; want success", name, err)
		}
		if hold.Name() != name {
			t.Errorf("Name of the hold is %q; want %q", hold.Name(), name)
		}
		holds = append(holds, hold)
	}
	for i, name := range acceptable() {
		if _, err := b.Locker(name).TryLock(t.ctx); !errors.Is(err, coord.ErrBusy) {
			t.Errorf("TryLock(%q) by another client: %v; want ErrBusy", name, err)
		}
		line, err := b.Inspect(t.ctx, backend.Mutex, name)
		if err != nil || len(line) != 1 || line[0].Token != holds[i].Token() {
			t.Errorf("Inspect(%q): %s, %v; want the one holder", name, show(line), err)
		}
	}
	for i, name := range acceptable() {
		t.release(name, holds[i])
		b.free(backend.Place{Kind: backend.Mutex, Name: name})
	}
}

func namesRejected(t *T) {
	c := t.open()
	ctx := t.ctx
	for _, name := range unacceptable() {
		calls := map[string]func() error{
			"Lock":      func() error { _, err := c.Locker(name).Lock(ctx); return err },
			"TryLock":   func() error { _, err := c.Locker(name).TryLock(ctx); return err },
			"RLock":     func() error { _, err := c.RWLocker(name).RLock(ctx); return err },
			"Acquire":   func() error { _, err := c.Semaphore(name, 1).Acquire(ctx, 1); return err },
			"Campaign":  func() error { _, err := c.Election(name).Campaign(ctx, nil); return err },
			"Leader":    func() error { _, err := c.Election(name).Leader(ctx); return err },
			"Join":      func() error { _, err := c.Group(name).Join(ctx, nil); return err },
			"Members":   func() error { _, err := c.Group(name).Members(ctx); return err },
			"Enter":     func() error { _, err := c.Barrier(name, 2).Enter(ctx); return err },
			"CountDown": func() error { return c.Latch(name, 1).CountDown(ctx) },
			"Wait":      func() error { return c.Latch(name, 1).Wait(ctx) },
			"All":       func() error { _, err := coord.All(c.Locker(name)).Lock(ctx); return err },
			"Inspect":   func() error { _, err := c.Inspect(ctx, backend.Mutex, name); return err },
			"bare Lock": func() error {
				_, err := c.b.Acquire(ctx, backend.Place{Kind: backend.Mutex, Name: name}, exclusiveClaim)
				return err
			},
			"bare Load": func() error { _, err := c.b.Load(ctx, backend.Place{Kind: backend.Latch, Name: name}, ""); return err },
			"bare Gone": func() error { return c.b.Gone(ctx, backend.Place{Kind: backend.Group, Name: name}, "x") },
			"bare Line": func() error {
				_, err := c.b.Observe(ctx, backend.Place{Kind: backend.Group, Name: name}, "")
				return err
			},
			"bare Change": func() error {
				_, err := c.b.Store(ctx, backend.Place{Kind: backend.Latch, Name: name}, nil, "x")
				return err
			},
		}
		for what, call := range calls {
			if err := call(); !errors.Is(err, coord.ErrInvalid) {
				t.Errorf("%s(%.40q): %v; want ErrInvalid", what, name, err)
			}
		}
	}
}

func namesPlaces(t *T) {
	a, b := t.open(), t.open()
	names := acceptable()
	for _, name := range names {
		p := backend.Place{Kind: backend.Barrier, Name: name}
		v := a.register(p)
		if v.Data != nil {
			t.Fatalf("the register of %q holds %q before it was stored", name, v.Data)
		}
		a.store(p, []byte(name), v.Version)
	}
	group := backend.Place{Kind: backend.Group, Name: names[0]}
	l := a.take("a member", group, backend.Claim{Mode: backend.Presence, Data: []byte(names[0])})
	for i, name := range names {
		p := backend.Place{Kind: backend.Barrier, Name: name}
		v := begin(t, "Load", func(ctx context.Context) (backend.Value, error) { return b.b.Load(ctx, p, "") }).get()
		if string(v.Data) != name {
			t.Errorf("the register of %q holds %q", name, v.Data)
		}
		b.store(p, nil, v.Version)
		if i > 0 {
			b.inLine(backend.Place{Kind: backend.Group, Name: name}, 0)
		}
	}
	b.inLine(group, 1)
	t.give("the member", l)
}
