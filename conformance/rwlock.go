package conformance

import (
	"context"
	"fmt"
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
