package conformance

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
)

func allChecks() []check {
	lock := []need{kind(backend.Mutex)}
	return []check{
		{name: "All/AllOrNone", need: lock, fn: allOrNone, tough: true,
			why: "All holds all of its locks or none, and gives back what it had when it cannot go on"},
		{name: "All/NoCircle", need: lock, fn: allNoCircle, tough: true,
			why: "two Alls never wait for each other in a circle, whatever the order of their arguments"},
		{name: "All/Parts", need: []need{kind(backend.RWMutex)}, fn: allParts, tough: true,
			why: "a hold of All ends with any of its parts, and then gives back the others"},
		{name: "All/Twice", need: lock, fn: allTwice, tough: true,
			why: "a lock that occurs twice in All is ErrInvalid, since it would wait for itself"},
	}
}

func allOrNone(t *T) {
	a, b := t.open(), t.open()
	n1, n2, n3 := t.name+"-1", t.name+"-2", t.name+"-3"
	all := coord.All(a.Locker(n1), a.Locker(n2), a.Locker(n3))
	hold := begin(t, "All", all.Lock).get()
	for _, n := range []string{n1, n2, n3} {
		begin(t, "an attempt at a part", b.Locker(n).TryLock).fails(coord.ErrBusy)
	}
	t.release("All", hold)
	t.over("All", hold, coord.ErrReleased)
	t.release("All, again,", hold)

	last := begin(t, "another holder", b.Locker(n3).Lock).get()
	begin(t, "an attempt at all", all.TryLock).fails(coord.ErrBusy)
	w := begin(t, "All that waits for the last part", all.Lock)
	b.inLine(backend.Place{Kind: backend.Mutex, Name: n3}, 2)
	w.waits()
	w.cancel()
	w.fails(context.Canceled)
	t.held("the other holder", last)
	for _, n := range []string{n1, n2} {
		t.release("a part", begin(t, "an attempt at what All gave back", b.Locker(n).TryLock).get())
	}
	b.inLine(backend.Place{Kind: backend.Mutex, Name: n3}, 1)
}

func allNoCircle(t *T) {
	cs := t.opens(3)
	names := []string{t.name + "-a", t.name + "-b", t.name + "-c"}
	var inside atomic.Int64
	var all []*attempt[struct{}]
	for i, c := range cs {
		ls := []coord.Locker{c.Locker(names[i]), c.Locker(names[(i+1)%3]), c.Locker(names[(i+2)%3])}
		if i == 2 {
			ls[0], ls[1] = ls[1], ls[0]
		}
		l := coord.All(ls...)
		all = append(all, beginError(t, "one of three Alls", func(ctx context.Context) error {
			for range 10 {
				hold, err := l.Lock(ctx)
				if err != nil {
					return err
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d hold all at once", n)
				}
				inside.Add(-1)
				t.release("All", hold)
			}
			return nil
		}))
	}
	for _, a := range all {
		if !within(t.patience()/2, a.done) || a.err != nil {
			t.Fatalf("one of three Alls did not end well: %v; all goroutines:\n%s", a.outcome(), stacks())
		}
	}
}

func allParts(t *T) {
	a, b := t.open(), t.open()
	n1, n2 := t.name+"-1", t.name+"-2"
	hold := begin(t, "All", coord.All(a.Locker(n2), coord.RLocker(a.RWLocker(n1))).Lock).get()
	begin(t, "another reader of the read part", b.RWLocker(n1).TryRLock).get()
	parts := hold.Parts()
	if len(parts) != 2 || parts[0].Name() != n2 || parts[1].Name() != n1 {
		t.Fatalf("the parts are %v; want those of %q and %q", parts, n2, n1)
	}
	if hold.Token() != max(parts[0].Token(), parts[1].Token()) {
		t.Errorf("the token is %d; want the greatest of %d and %d", hold.Token(), parts[0].Token(), parts[1].Token())
	}
	t.release("a part", parts[0])
	if !within(t.h.Slack, hold.Done()) || hold.Err() == nil {
		t.Fatalf("the hold of All goes on after a part has ended; Err is %v", hold.Err())
	}
	t.over("the other part", parts[1], coord.ErrReleased)
	if err := hold.Release(); err != nil && !errors.Is(err, coord.ErrReleased) {
		t.Errorf("Release of All after a part was released: %v", err)
	}
}

func allTwice(t *T) {
	c := t.open()
	other := t.name + "-other"
	for _, l := range []coord.Locker{
		coord.All(c.Locker(t.name), c.Locker(other), c.Locker(t.name)),
		coord.All(c.Locker(t.name), coord.RLocker(c.RWLocker(t.name))),
		coord.All(),
	} {
		begin(t, "All with a lock twice, or none,", l.Lock).fails(coord.ErrInvalid)
		begin(t, "All with a lock twice, or none,", l.TryLock).fails(coord.ErrInvalid)
	}
	c.free(t.place(backend.Mutex))
}
