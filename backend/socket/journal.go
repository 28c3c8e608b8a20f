//go:build linux || darwin

package socket

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/backend/memory"
)

// A journal is what the next server has to know: the line and the registers.
// It is written before anybody is told, and needs no fsync: it has to survive
// processes, and not the host, since that takes all claims along.
//
// What ends is marked in place, with a byte. So a release needs no space and
// works on a full disk, too. What was marked is left out when the file is
// written anew, which replaces it in one step. The server holds the flock of
// the file that is in place: two servers cannot write at once even where
// somebody removed the sidecar under the first.
type journal struct {
	at layout

	mu     sync.Mutex
	file   *os.File
	id     identity
	end    int64 // where the next record goes
	live   int64 // bytes of the records that count
	mark   uint64
	again  int64                   // when end reaches this it is written anew
	items  map[*item]struct{}      // the records that count
	regs   map[backend.Place]*item // those of registers among them
	err    error                   // why nothing can be written any more
	sound  atomic.Bool             // err is nil
	broken func(error)             // is told of it, once
}

// An item is a record of the journal that counts.
type item struct {
	off  int64
	size int64

	claim  bool // of a claim; else of a register
	place  backend.Place
	state  byte
	author author
	token  uint64 // of the claim, or the version of the register
	record record // as read at the start; empty afterwards
}

// An author is who entered a claim, or made a Store, and under which number.
type author struct {
	member memberID
	number uint64
}

const (
	smallJournal = 256 << 10 // bytes below which it is not worth writing anew
	tinyJournal  = 16 << 10  // the same, when it has been read anyway
	reserveStep  = 1 << 20   // numbers reserved at a time
)

var errJournalClosed = errors.New("the server has ended")

// openJournal takes the journal, and makes it if there is none. It returns nil
// if another server has it.
func openJournal(at layout) (j *journal, fresh bool, err error) {
	f, id, err := at.lockAt(at.journal())
	if err != nil || f == nil {
		return nil, false, err
	}
	j = &journal{at: at, file: f, id: id, items: make(map[*item]struct{}), regs: make(map[backend.Place]*item)}
	j.sound.Store(true)
	fresh, err = j.load()
	if err != nil {
		_ = f.Close()
		return nil, false, err
	}
	return j, fresh, nil
}

// close lets the next server have it. Nothing is written after it returns.
func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.err = errJournalClosed
	}
	j.sound.Store(false)
	_ = j.file.Close()
}

// intact reports whether everything was written so far, so that what depends
// on it may be told.
func (j *journal) intact() bool { return j.sound.Load() }

// fail ends the journal: what happened could not be written down.
func (j *journal) fail(err error) {
	if j.err != nil {
		return
	}
	j.err = fmt.Errorf("journal %s: %w", j.at.journal(), err)
	j.sound.Store(false)
	if j.broken != nil {
		j.broken(j.err)
	}
}

// Enter implements memory.Recorder.
func (j *journal) Enter(e *memory.Entry) error {
	c, ok := e.Tag.(*claimant)
	if !ok {
		return fmt.Errorf("%w: an entry of nobody", backend.ErrInvalid)
	}
	it := &item{claim: true, place: e.Place(), state: stateLive, author: c.author, token: e.Token()}
	r := record{kind: recordClaim, author: c.author, token: e.Token(), place: it.place, claim: e.Claim(), since: e.Since()}
	if err := j.append(it, &r); err != nil {
		return err
	}
	c.item = it
	return nil
}

// Leave implements memory.Recorder.
func (j *journal) Leave(e *memory.Entry) {
	c, ok := e.Tag.(*claimant)
	if !ok || c.item == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.drop(c.item)
}

// Downgrade implements memory.Recorder.
func (j *journal) Downgrade(e *memory.Entry) {
	c, ok := e.Tag.(*claimant)
	if !ok || c.item == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.set(c.item, stateShared)
}

// Store implements memory.Recorder.
func (j *journal) Store(p backend.Place, data []byte, version uint64, tag any) error {
	by, _ := tag.(author)
	p = canonical(p)
	if data == nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		if old := j.regs[p]; old != nil {
			j.drop(old)
			delete(j.regs, p)
		}
		return j.err
	}
	it := &item{place: p, state: stateLive, author: by, token: version}
	r := record{kind: recordRegister, author: by, token: version, place: p, data: data}
	if err := j.append(it, &r); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if old := j.regs[p]; old != nil {
		j.drop(old)
	}
	j.regs[p] = it
	return nil
}

// canonical is the one place of kinds that are one.
func canonical(p backend.Place) backend.Place {
	if p.Kind == backend.RWMutex {
		p.Kind = backend.Mutex
	}
	return p
}

// Reserve implements memory.Recorder. Where it cannot write, the next start
// relies on the clock, which is ahead of the counter but for millions of
// claims a second.
func (j *journal) Reserve(count uint64) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	if count < j.mark {
		return j.mark
	}
	if j.reserve(count+reserveStep) != nil {
		return count + 1
	}
	return j.mark
}

func (j *journal) reserve(mark uint64) error {
	if j.err != nil {
		return j.err
	}
	h := header{mark: mark, boot: bootID()}
	if _, err := j.file.WriteAt(h.encode(), 0); err != nil {
		return err
	}
	j.mark = mark
	return nil
}

// append writes a record, wholly or not at all.
func (j *journal) append(it *item, r *record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return backend.Unavailable(j.at.path, j.err)
	}
	buf := bufferPool.Get().(*[]byte)
	defer bufferPool.Put(buf)
	b := r.encode((*buf)[:0])
	if cap(b) <= 64<<10 {
		*buf = b
	}
	n, err := j.file.WriteAt(b, j.end)
	if err != nil {
		if n > 0 {
			if cut := j.file.Truncate(j.end); cut != nil {
				j.fail(cut)
			}
		}
		return backend.Unavailable(j.at.path, fmt.Errorf("nothing was granted or stored, since it could not be written down: %w", err))
	}
	it.off, it.size = j.end, int64(len(b))
	j.end += it.size
	j.live += it.size
	j.items[it] = struct{}{}
	j.tidy()
	return nil
}

var bufferPool = sync.Pool{New: func() any { return new([]byte) }}

// drop marks what no longer counts.
func (j *journal) drop(it *item) {
	if _, counts := j.items[it]; !counts {
		return
	}
	j.set(it, stateDead)
	delete(j.items, it)
	j.live -= it.size
	if len(j.items) == 0 && j.end > smallJournal && j.err == nil {
		// Nothing counts: begin again in place.
		if err := j.file.Truncate(headerSize); err == nil {
			j.end = headerSize
		}
	}
}

func (j *journal) set(it *item, state byte) {
	it.state = state
	if j.err != nil {
		return
	}
	if _, err := j.file.WriteAt([]byte{state}, it.off); err != nil {
		j.fail(err)
	}
}

// tidy writes the journal anew when most of it no longer counts.
func (j *journal) tidy() {
	if j.end >= max(smallJournal, j.again) && j.live <= j.end/2 {
		j.shrink()
	}
}

func (j *journal) shrink() {
	if err := j.rewrite(); err != nil {
		j.again = 2 * j.end // perhaps the disk is full: later
	}
}

// rewrite replaces the file by one that has only what counts. Until the last
// step the old one is in place, and whole.
func (j *journal) rewrite() error {
	tmp := j.at.journal() + ".new"
	_ = os.Remove(tmp) // of a server that died in the middle
	f, err := j.at.createFile(tmp)
	if err != nil {
		return err
	}
	ends, err := j.copyTo(f)
	if err == nil {
		_, err = lock(f)
	}
	var id identity
	if err == nil {
		id, err = identify(f)
	}
	if err == nil {
		err = os.Rename(tmp, j.at.journal())
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(tmp)
		return err
	}
	_ = j.file.Close()
	j.file, j.id, j.again = f, id, 0
	j.end = headerSize
	for it, off := range ends {
		it.off = off
		j.end += it.size
	}
	j.live = j.end - headerSize
	return nil
}

// copyTo writes what counts to f, and returns where each record is now.
func (j *journal) copyTo(f *os.File) (map[*item]int64, error) {
	h := header{mark: j.mark, boot: bootID()}
	all := h.encode()
	places := make(map[*item]int64, len(j.items))
	for it := range j.items {
		at := len(all)
		all = append(all, make([]byte, it.size)...)
		if _, err := j.file.ReadAt(all[at:], it.off); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		all[at] = it.state
		places[it] = int64(at)
	}
	_, err := f.Write(all)
	return places, err
}
