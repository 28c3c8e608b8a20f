package conformance

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
)

// minio/minio#2629. Each reader asks before the one ahead of it has released,
// so there is a reader at all times; the writer comes in their midst.
func rwWriterNotStarved(t *T) {
	a, b := t.open(), t.open()
	now := a.rlock("a reader").get()
	for range 3 {
		next := a.rlock("an overlapping reader").get()
		t.release("a reader", now)
		now = next
	}
	w := b.queued(b.lock("the writer"), 2)
	next := a.queued(a.rlock("an overlapping reader behind the writer"), 3)
	t.release("the last reader ahead of the writer", now)
	writer := w.get()
	next.waits()
	t.release("the writer", writer)
	next.get()
}

func rwReaderNotStarved(t *T) {
	a, b := t.open(), t.open()
	w := a.lock("a writer").get()
	w2 := a.queued(a.lock("the next writer"), 2)
	r := b.queued(b.rlock("the reader"), 3)
	w3 := a.queued(a.lock("a writer behind the reader"), 4)
	t.release("a writer", w)
	t.release("the next writer", w2.get())
	reader := r.get()
	w3.waits()
	t.release("the reader", reader)
	w3.get()
}

func rwAdjacentReaders(t *T) {
	a, b := t.open(), t.open()
	const order = "RWRWRR"
	gate := a.lock("the holder").get()
	var line []*attempt[*coord.Hold]
	for i, c := range order {
		who, by := fmt.Sprintf("number %d, %c,", i, c), []*client{a, b}[i%2]
		if c == 'R' {
			line = append(line, by.queued(by.rlock(who), i+2))
		} else {
			line = append(line, by.queued(by.lock(who), i+2))
		}
	}
	t.release("the holder", gate)
	for i, a := range line[:4] {
		hold := a.get()
		line[i+1].waits()
		t.release(a.who, hold)
	}
	r4, r5 := line[4].get(), line[5].get()
	t.held("the first of the last two readers", r4)
	t.held("the second of them", r5)
}

// The README of Sequester, translated: it holds while the rest queue, so what
// was written down is the order of admission.
func rwLongExample(t *T) {
	a, b := t.open(), t.open()
	var (
		mu  sync.Mutex
		log []string
	)
	write := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		log = append(log, s)
	}
	inLine := 0
	// queue asks, and gives back at once what it gets.
	queue := func(c *client, label string, lock func(context.Context) (*coord.Hold, error)) *attempt[struct{}] {
		inLine++
		call := beginError(t, label, func(ctx context.Context) error {
			h, err := lock(ctx)
			if err != nil {
				return err
			}
			write(label)
			t.release(label, h)
			return nil
		})
		c.inLine(t.place(backend.RWMutex), inLine)
		return call
	}
	l, m := a.RWLocker(t.name), b.RWLocker(t.name)

	first := begin(t, "exclude one", l.Lock).get()
	write("exclude one")
	inLine = 1
	calls := []*attempt[struct{}]{
		queue(a, "share one", l.RLock), queue(b, "share two", m.RLock),
		queue(a, "exclude one", l.Lock), queue(b, "share three", m.RLock),
	}
	t.release("exclude one", first)
	for _, c := range calls {
		c.get()
	}
	fourth := begin(t, "share four", m.RLock).get()
	write("share four")
	inLine = 1
	last := queue(a, "exclude two", l.Lock)
	last.waits()
	t.release("share four", fourth)
	last.get()

	want := []string{"exclude one", "share one", "share two", "exclude one", "share three", "share four", "exclude two"}
	if slices.Equal(log[1:3], []string{"share two", "share one"}) {
		log[1], log[2] = log[2], log[1] // they hold together, so either may write first
	}
	if !slices.Equal(log, want) {
		t.Errorf("the order is %q; want %q", log, want)
	}
	a.free(t.place(backend.RWMutex))
}

func rwLatchRecipe(t *T) {
	a, b := t.open(), t.open()
	latch := a.lock("the latch's creator").get()
	var waiting []*attempt[*coord.Hold]
	for i := range 5 {
		waiting = append(waiting, b.queued(b.rlock("one who waits at the latch"), i+2))
	}
	t.release("the latch's creator", latch)
	for _, w := range waiting {
		w.get()
	}
	b.rlock("one who comes late").get()
}

func rwCountdownRecipe(t *T) {
	const n = 3
	a, b := t.open(), t.open()
	var counts []*coord.Hold
	for range n {
		counts = append(counts, a.rlock("a count").get())
	}
	boundary := a.queued(a.lock("the boundary"), n+1)
	var waiting []*attempt[*coord.Hold]
	for i := range 3 {
		waiting = append(waiting, b.queued(b.rlock("one who waits"), n+2+i))
	}
	for _, c := range counts {
		boundary.waits()
		waiting[0].waits()
		t.release("a count", c)
	}
	hold := boundary.get()
	waiting[0].waits()
	t.release("the boundary", hold)
	for _, w := range waiting {
		w.get()
	}
}

func rwHammer(t *T) {
	each := 40
	if t.h.small {
		each = 8
	} else if t.h.Expect.Scope > backend.Process {
		each = 10
	}
	number := guarded{lies: t.h.lies} // writers write it, and readers read it
	writes := 0
	var all []*attempt[struct{}]
	for i, c := range t.opens(8) {
		l := c.RWLocker(t.name)
		lock, change := l.RLock, 0
		if i%4 == 0 {
			lock, change = l.Lock, 1
			writes += each
		}
		all = append(all, beginError(t, "one of many", func(ctx context.Context) error {
			for range each {
				hold, err := lock(ctx)
				if err != nil {
					return err
				}
				if number.get(); change != 0 {
					number.add(change)
				}
				t.release("one of many", hold)
			}
			return nil
		}))
	}
	for _, a := range all {
		if !within(t.patience()/2, a.done) || a.err != nil {
			t.Fatalf("one of many did not end well: %v; all goroutines:\n%s", a.outcome(), stacks())
		}
	}
	if n := number.get(); n != writes {
		t.Errorf("the number that the lock guards is %d; want %d", n, writes)
	}
}
