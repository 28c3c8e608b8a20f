package conformance

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
)

func rwChecks() []check {
	rows := []check{
		{name: "RWLock/ReadersTogether", fn: rwReadersTogether,
			why: "many readers hold at a time, of one client and of several"},
		{name: "RWLock/WriterAlone", fn: rwWriterAlone,
			why: "a writer and a reader never hold at a time, whoever came first"},
		{name: "RWLock/WaitingWriterFirst", fn: rwWaitingWriterFirst, need: []need{fifo},
			why: "a waiting writer holds later readers back, those that try too"},
		{name: "RWLock/CancelledWriter", fn: rwCancelledWriter,
			why: "when a queued writer gives up, the readers behind it join the readers ahead of it at once"},
		{name: "RWLock/CancelledReader", fn: rwCancelledReader,
			why: "when a queued reader gives up, the writers around it go on in their order"},
		{name: "RWLock/Try", fn: rwTry,
			why: "TryRLock is busy only where RLock would wait for a writer, TryLock where anybody holds"},
		{name: "RWLock/WriterReaderWriter", fn: rwWriterReaderWriter, need: []need{fifo},
			why: "a reader between two writers waits for the first and is waited for by the second"},
		{name: "RWLock/WriterNotStarved", fn: rwWriterNotStarved, need: []need{fifo},
			why: "readers that always overlap do not starve a writer"},
		{name: "RWLock/ReaderNotStarved", fn: rwReaderNotStarved, need: []need{fifo},
			why: "writers that never pause do not starve a reader"},
		{name: "RWLock/AdjacentReaders", fn: rwAdjacentReaders, need: []need{fifo},
			why: "arrival order R W R W R R runs as R, W, R, W, R R: adjacent readers run together and nobody overtakes"},
		{name: "RWLock/Tokens", fn: rwTokens,
			why: "a token is greater than that of every conflicting hold before: a writer's than all, a reader's than all writers'"},
		{name: "RWLock/SameAsLocker", fn: rwSameAsLocker,
			why: "RWLocker(name) is the same lock as Locker(name)"},
		{name: "RWLock/RLocker", fn: rwRLocker,
			why: "RLocker is the reader's side, and releases like any lock"},
		{name: "RWLock/Downgrade", fn: rwDowngrade,
			why: "Downgrade turns a writer into a reader in place: waiting readers join it, and no writer gets in between"},
		{name: "RWLock/DowngradeOther", fn: rwDowngradeOther,
			why: "Downgrade does nothing for a reader, fails for what has ended, and is refused for what has no reader's side"},
		{name: "RWLock/LongExample", fn: rwLongExample, need: []need{fifo},
			why: "the long example of the Sequester README runs in its published order"},
		{name: "RWLock/LatchRecipe", fn: rwLatchRecipe,
			why: "Sequester's latch: who creates it writes, who waits reads, and one release lets all through"},
		{name: "RWLock/CountdownRecipe", fn: rwCountdownRecipe, need: []need{fifo},
			why: "Sequester's countdown: n readers, a writer behind them, and waiting readers behind that open when the n release"},
		{name: "RWLock/Hammer", fn: rwHammer,
			why: "a writer is alone and readers see no writer, however short the holds are"},
	}
	for i := range rows {
		rows[i].tough = true
		rows[i].need = append([]need{kind(backend.RWMutex)}, rows[i].need...)
	}
	return rows
}

// rlock starts an RLock, and lock a Lock, of the check's lock.
func (c *client) rlock(who string) *attempt[*coord.Hold] {
	return begin(c.t, who, c.RWLocker(c.t.name).RLock)
}

func (c *client) lock(who string) *attempt[*coord.Hold] {
	return begin(c.t, who, c.RWLocker(c.t.name).Lock)
}

func (c *client) tryLock(who string) *attempt[*coord.Hold] {
	return begin(c.t, who, c.RWLocker(c.t.name).TryLock)
}

func (c *client) tryRLock(who string) *attempt[*coord.Hold] {
	return begin(c.t, who, c.RWLocker(c.t.name).TryRLock)
}

// queued waits until the claim is number n in the line of the check's lock, and
// waits there.
func (c *client) queued(a *attempt[*coord.Hold], n int) *attempt[*coord.Hold] {
	c.inLine(c.t.place(backend.RWMutex), n)
	a.waits()
	return a
}

func rwReadersTogether(t *T) {
	a, b := t.open(), t.open()
	var holds []*coord.Hold
	for i, c := range []*client{a, a, b, b} {
		holds = append(holds, c.rlock(fmt.Sprintf("reader %d", i)).get())
	}
	for i, h := range holds {
		t.held(fmt.Sprintf("reader %d", i), h)
	}
	w := a.queued(a.lock("the writer"), 5)
	for i, h := range holds {
		w.waits()
		t.release(fmt.Sprintf("reader %d", i), h)
	}
	w.get()
}

func rwWriterAlone(t *T) {
	a, b := t.open(), t.open()
	w := a.lock("the writer").get()
	r := b.queued(b.rlock("a reader behind the writer"), 2)
	t.release("the writer", w)
	reader := r.get()
	w2 := a.queued(a.lock("a writer behind the reader"), 2)
	t.release("the reader", reader)
	w2.get()
}

func rwWaitingWriterFirst(t *T) {
	a, b := t.open(), t.open()
	r1 := a.rlock("the first reader").get()
	w := b.queued(b.lock("the writer"), 2)
	r2 := a.queued(a.rlock("a reader behind the waiting writer"), 3)
	a.tryRLock("a reader that tries behind the waiting writer").fails(coord.ErrBusy)
	t.release("the first reader", r1)
	hold := w.get()
	r2.waits()
	t.release("the writer", hold)
	r2.get()
}

// golang/go#37852: when the big one gives up, the small ones behind it were not
// woken though there was room.
func rwCancelledWriter(t *T) {
	for _, how := range []string{"cancelled", "deadline", "closed"} {
		a, b := t.open(), t.open()
		r1 := a.rlock("the first reader").get()
		ctx, cancel := context.WithTimeout(t.ctx, 30*time.Millisecond)
		if how != "deadline" {
			cancel()
			ctx, cancel = context.WithCancel(t.ctx)
		}
		w := begin(t, "the writer", func(context.Context) (*coord.Hold, error) { return b.RWLocker(t.name).Lock(ctx) })
		if how == "deadline" {
			r2 := a.rlock("a reader that comes later")
			w.fails(context.DeadlineExceeded)
			t.release("a reader that comes later", r2.get())
			t.release("the first reader", r1)
			cancel()
			continue
		}
		b.queued(w, 2)
		r2 := a.queued(a.rlock("a reader behind the writer"), 3)
		r3 := a.queued(a.rlock("another reader behind the writer"), 4)
		if how == "closed" {
			b.shut()
			w.fails(coord.ErrClosed)
		} else {
			cancel()
			w.fails(context.Canceled)
		}
		hold := r2.get()
		t.release("another reader behind the writer", r3.get())
		t.held("the first reader", r1)
		t.release("the first reader", r1)
		t.release("a reader behind the writer", hold)
		cancel()
		a.free(t.place(backend.RWMutex))
	}
}

func rwCancelledReader(t *T) {
	a, b := t.open(), t.open()
	w1 := a.lock("the first writer").get()
	r := b.queued(b.rlock("the reader"), 2)
	w2 := a.queued(a.lock("the second writer"), 3)
	r2 := b.queued(b.rlock("the last reader"), 4)
	r.cancel()
	r.fails(context.Canceled)
	w2.waits()
	t.release("the first writer", w1)
	hold := w2.get()
	r2.waits()
	t.release("the second writer", hold)
	r2.get()
}

func rwTry(t *T) {
	a, b := t.open(), t.open()
	r1 := a.tryRLock("the first reader").get()
	r2 := b.tryRLock("the second reader").get()
	b.tryLock("a writer that tries").fails(coord.ErrBusy)
	t.release("the first reader", r1)
	a.tryLock("a writer that tries").fails(coord.ErrBusy)
	t.release("the second reader", r2)
	w := a.tryLock("a writer that tries at what is free").get()
	for _, c := range []*client{a, b} {
		c.tryRLock("a reader that tries").fails(coord.ErrBusy)
		c.tryLock("a writer that tries").fails(coord.ErrBusy)
	}
	a.inLine(t.place(backend.RWMutex), 1)
	t.release("the writer", w)
	b.tryRLock("a reader that tries at what is free").get()
}

// python-zk/kazoo#649: the reader between two writers watched the wrong one.
func rwWriterReaderWriter(t *T) {
	cs := t.opens(4)
	w1 := cs[0].lock("the first writer").get()
	r := cs[1].queued(cs[1].rlock("the reader"), 2)
	w2 := cs[2].queued(cs[2].lock("the second writer"), 3)
	r2 := cs[3].queued(cs[3].rlock("the second reader"), 4)
	t.release("the first writer", w1)
	reader := r.get()
	w2.waits()
	r2.waits()
	t.release("the reader", reader)
	writer := w2.get()
	r2.waits()
	t.release("the second writer", writer)
	r2.get()
}

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

func rwTokens(t *T) {
	a, b := t.open(), t.open()
	var greatest, greatestWriter uint64
	for i := range 4 {
		w := a.lock("a writer").get()
		if w.Token() <= greatest {
			t.Fatalf("round %d: a writer has token %d after %d; want a greater one", i, w.Token(), greatest)
		}
		greatestWriter, greatest = w.Token(), w.Token()
		t.release("the writer", w)
		r1, r2 := a.rlock("a reader").get(), b.rlock("a reader").get()
		for _, r := range []*coord.Hold{r1, r2} {
			if r.Token() <= greatestWriter {
				t.Fatalf("round %d: a reader has token %d after a writer's %d; want a greater one", i, r.Token(), greatestWriter)
			}
			greatest = max(greatest, r.Token())
		}
		t.release("a reader", r1)
		t.release("a reader", r2)
		a, b = b, a
	}
}

func rwSameAsLocker(t *T) {
	a, b := t.open(), t.open()
	lock := begin(t, "the Locker", a.Locker(t.name).Lock).get()
	b.tryRLock("a reader").fails(coord.ErrBusy)
	r := b.queued(b.rlock("a reader"), 2)
	t.release("the Locker", lock)
	hold := r.get()
	begin(t, "the Locker that tries", a.Locker(t.name).TryLock).fails(coord.ErrBusy)
	line := a.now(t.place(backend.Mutex))
	if len(line) != 1 || line[0].Claim.Mode != backend.Shared {
		t.Errorf("the line of the Locker is %s; want the reader", show(line))
	}
	t.release("the reader", hold)
	begin(t, "the Locker", a.Locker(t.name).Lock).get()
}

func rwRLocker(t *T) {
	a, b := t.open(), t.open()
	err := coord.With(t.ctx, coord.RLocker(a.RWLocker(t.name)), func(ctx context.Context, h *coord.Hold) error {
		t.release("another reader", b.rlock("another reader").get())
		b.tryLock("a writer that tries").fails(coord.ErrBusy)
		return nil
	})
	if t.h.flaky {
		err = nil
	}
	t.ok("With a reader's side", err)
	w := b.lock("the writer").get()
	begin(t, "TryLock of a reader's side", coord.RLocker(a.RWLocker(t.name)).TryLock).fails(coord.ErrBusy)
	t.release("the writer", w)
}

func rwDowngrade(t *T) {
	cs := t.opens(3)
	w := cs[0].lock("the writer").get()
	r1 := cs[1].queued(cs[1].rlock("a waiting reader"), 2)
	w2 := cs[2].queued(cs[2].lock("a queued writer"), 3)
	r2 := cs[1].queued(cs[1].rlock("a reader behind the queued writer"), 4)
	t.ok("Downgrade", w.Downgrade(t.ctx))
	reader := r1.get()
	t.held("the downgraded hold", w)
	w2.waits()
	r2.waits()
	t.release("the waiting reader", reader)
	w2.waits()
	t.release("the downgraded hold", w)
	t.over("the downgraded hold", w, coord.ErrReleased)
	t.release("the queued writer", w2.get())
	r2.get()
}

func rwDowngradeOther(t *T) {
	a, b := t.open(), t.open()
	r := a.rlock("a reader").get()
	t.ok("Downgrade of a reader", r.Downgrade(t.ctx))
	t.held("the reader", r)
	t.release("the reader", r)
	if err := r.Downgrade(t.ctx); err == nil {
		t.Errorf("Downgrade of a released hold succeeded")
	}
	dead, cancel := context.WithCancel(t.ctx)
	cancel()
	w := b.lock("a writer").get()
	if err := w.Downgrade(dead); err == nil {
		t.Errorf("Downgrade with a dead ctx succeeded")
	}
	t.held("the writer", w)
	a.tryRLock("a reader that tries").fails(coord.ErrBusy)
	if !t.h.Expect.Supports(backend.Election) {
		return
	}
	leader := begin(t, "Campaign", func(ctx context.Context) (*coord.Hold, error) {
		return a.Election(t.name).Campaign(ctx, nil)
	}).get()
	t.isError("Downgrade of a leader", leader.Downgrade(t.ctx), coord.ErrInvalid)
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
	guarded := 0 // not atomic: writers write it, readers read it, and -race looks on
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
				if now := guarded; change != 0 {
					guarded = now + change
				}
				t.release("one of many", hold)
			}
			return nil
		}))
	}
	for _, a := range all {
		if !within(t.patience()/2, a.done) || a.err != nil {
			t.Fatalf("one of many did not end well: %v; all goroutines:\n%s", a.err, stacks())
		}
	}
	if guarded != writes {
		t.Errorf("the number that the lock guards is %d; want %d", guarded, writes)
	}
}
