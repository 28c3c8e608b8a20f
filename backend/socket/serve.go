//go:build linux || darwin

package socket

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/backend/memory"
)

// A session is what a server knows of a member. It goes on without a
// connection as long as the member lives.
type session struct {
	server *server
	member memberID

	work sync.Mutex // held while a request about claims is handled

	mu      sync.Mutex
	out     outlet // where replies go; nil for an orphan
	gone    bool
	claims  map[uint64]*claimant
	watches map[uint64]context.CancelFunc
}

// An outlet takes replies to a member, in order and without waiting.
type outlet interface{ reply(r *reply) }

func (w *wire) reply(r *reply) { w.send(r) }

// A claimant is a claim of a member, by the number of its request.
type claimant struct {
	author  author
	session *session
	item    *item // in the journal

	// Guarded by session.mu.
	entry   *memory.Entry // nil while it is being entered
	granted bool
}

// admitted is called by the engine when the claim need not wait any more.
func (c *claimant) admitted() {
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	c.granted = true
	s.tell(c)
}

// tell sends the grant. Nothing is told that the next server might not know.
func (s *session) tell(c *claimant) {
	if c.entry == nil || s.out == nil || s.claims[c.author.number] != c || !s.server.journal.intact() {
		return
	}
	s.out.reply(&reply{op: opOK, number: c.author.number, token: c.entry.Token()})
}

// attach makes out the member's connection. Claims that the member does not
// name it has given up; those that are admitted are in the answer.
func (s *session) attach(out outlet, number uint64, seqs []uint64) bool {
	s.work.Lock()
	defer s.work.Unlock()
	named := make(map[uint64]bool, len(seqs))
	for _, seq := range seqs {
		named[seq] = true
	}
	s.mu.Lock()
	s.cutLocked()
	var drop []*claimant
	for seq, c := range s.claims {
		if !named[seq] {
			drop = append(drop, c)
			delete(s.claims, seq)
		}
	}
	s.mu.Unlock()
	removeAll(drop)

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone || !s.server.journal.intact() {
		return false
	}
	r := &reply{op: opOK, number: number}
	for seq, c := range s.claims {
		if c.granted {
			r.held = append(r.held, seq)
		}
	}
	s.out = out
	out.reply(r)
	return true
}

// cutLocked ends the connection that there was.
func (s *session) cutLocked() {
	if w, ok := s.out.(*wire); ok {
		_ = w.conn.Close()
	}
	s.out = nil
	for _, cancel := range s.watches {
		cancel()
	}
	clear(s.watches)
}

// detach notes that a connection has ended. Whether its member has, too, only
// the kernel can say.
func (s *session) detach(w *wire) {
	s.mu.Lock()
	orphan := s.out == outlet(w)
	if orphan {
		s.cutLocked()
	}
	s.mu.Unlock()
	if orphan {
		s.server.wakeOrphans()
	}
}

// bury ends the session of a member that closed or died.
func (s *session) bury() {
	s.work.Lock()
	defer s.work.Unlock()
	s.mu.Lock()
	s.gone = true
	for _, cancel := range s.watches {
		cancel()
	}
	clear(s.watches)
	all := make([]*claimant, 0, len(s.claims))
	for _, c := range s.claims {
		all = append(all, c)
	}
	clear(s.claims)
	s.mu.Unlock()
	removeAll(all)
	s.server.mu.Lock()
	if s.server.sessions[s.member] == s {
		delete(s.server.sessions, s.member)
	}
	s.server.mu.Unlock()
	s.server.report(s.member)
}

// removeAll takes claims out of line, the last to come first, so that none of
// them is admitted in passing.
func removeAll(all []*claimant) {
	slices.SortFunc(all, func(a, b *claimant) int {
		if a.entry == nil || b.entry == nil || a.entry.Token() < b.entry.Token() {
			return 1
		}
		return -1
	})
	for _, c := range all {
		if c.entry != nil {
			c.entry.Remove()
		}
	}
}

// handle carries out a request, and reports whether the session has ended.
func (s *session) handle(out outlet, q *request) (ended bool) {
	switch q.op {
	case opAcquire:
		s.acquire(out, q)
	case opDrop, opDowngrade, opWithdraw:
		s.answer(out, q.number, s.change(q))
	case opObserve, opGone, opLoad:
		s.watch(out, q)
	case opStore:
		v, err := s.server.host.Store(s.server.ctx, author{s.member, q.number}, q.place, q.data, q.ver, q.alive...)
		s.reply(out, &reply{op: opOK, number: q.number, ver: v}, err)
	case opCancel:
		s.mu.Lock()
		if cancel := s.watches[q.number]; cancel != nil {
			cancel()
		}
		s.mu.Unlock()
	case opPlaces:
		places, err := s.server.host.Backend().Places(s.server.ctx)
		s.reply(out, &reply{op: opOK, number: q.number, places: places}, err)
	case opPing:
		s.answer(out, q.number, nil)
	case opBye:
		s.bury()
		s.answer(out, q.number, nil)
		return true
	default: // nobody must wait for an answer that does not come
		s.answer(out, q.number, fmt.Errorf("%w: %w", backend.ErrInvalid, errFrame))
	}
	return false
}

// answer replies without a result.
func (s *session) answer(out outlet, number uint64, err error) {
	s.reply(out, &reply{op: opOK, number: number}, err)
}

// reply sends r, or err in its stead. A server that ends does not say so: the
// next one will answer.
func (s *session) reply(out outlet, r *reply, err error) {
	switch {
	case err == nil:
		if s.server.journal.intact() {
			out.reply(r)
		}
	case errors.Is(err, errJournalClosed), errors.Is(err, backend.ErrClosed), errors.Is(err, context.Canceled):
	default:
		out.reply(failure(r.number, err))
	}
}

// acquire enters a claim. A repeat finds the claim that it made before.
func (s *session) acquire(out outlet, q *request) {
	s.work.Lock()
	defer s.work.Unlock()
	c := &claimant{author: author{s.member, q.number}, session: s}
	s.mu.Lock()
	if known := s.claims[q.number]; known != nil || s.gone {
		if known != nil && known.granted {
			s.tell(known)
		}
		s.mu.Unlock()
		return
	}
	s.claims[q.number] = c
	s.mu.Unlock()

	e, now, err := s.server.host.Enter(q.place, q.claim, c, c.admitted)
	s.mu.Lock()
	if err != nil {
		delete(s.claims, q.number)
		s.mu.Unlock()
		s.answer(out, q.number, err)
		return
	}
	c.entry = e
	if c.granted = c.granted || now; c.granted {
		s.tell(c)
	}
	s.mu.Unlock()
}

// change carries out a request about a claim that was entered before.
func (s *session) change(q *request) error {
	s.work.Lock()
	defer s.work.Unlock()
	s.mu.Lock()
	c := s.claims[q.seq]
	if c != nil && q.op == opDrop {
		delete(s.claims, q.seq)
	}
	s.mu.Unlock()
	switch {
	case c == nil && q.op == opDowngrade:
		return fmt.Errorf("%w: the server does not know the claim", backend.ErrUnavailable)
	case c == nil:
		return nil // done before
	case q.op == opDrop:
		c.entry.Remove()
		return nil
	case q.op == opDowngrade:
		return c.entry.Downgrade()
	}
	if err := c.entry.Withdraw(q.ver); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.claims, q.seq)
	s.mu.Unlock()
	return nil
}

// watch answers what may have to wait. Only where it has to, that takes a
// goroutine.
func (s *session) watch(out outlet, q *request) {
	if q.op != opGone {
		now := *q
		now.ver = ""
		r, err := s.look(s.server.ctx, &now)
		if err != nil || r.ver != q.ver {
			s.reply(out, r, err)
			return
		}
	}
	ctx, cancel := context.WithCancel(s.server.ctx)
	s.mu.Lock()
	s.watches[q.number] = cancel
	s.mu.Unlock()
	wait := *q
	s.server.spawn(func() {
		defer cancel()
		r, err := s.look(ctx, &wait)
		s.mu.Lock()
		delete(s.watches, wait.number)
		s.mu.Unlock()
		s.reply(out, r, err)
	}, cancel)
}

// look reads what the request asks for.
func (s *session) look(ctx context.Context, q *request) (*reply, error) {
	r := &reply{op: opOK, number: q.number}
	b := s.server.host.Backend()
	switch q.op {
	case opObserve:
		roster, err := b.Observe(ctx, q.place, q.ver)
		r.roster, r.ver = roster.Entries, roster.Version
		return r, err
	case opLoad:
		v, err := b.Load(ctx, q.place, q.ver)
		r.data, r.ver = v.Data, v.Version
		return r, err
	default:
		return r, b.Gone(ctx, q.place, q.id)
	}
}

// wakeOrphans has those looked at who have no connection.
func (s *server) wakeOrphans() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// mindOrphans asks the kernel whether members without a connection live. One
// that does comes back as soon as it runs, so there is nothing to look at but
// in the moments after a server has changed or a member has died, and while a
// member without a connection is stopped.
func (s *server) mindOrphans() {
	const shortest, longest = 200 * time.Microsecond, 100 * time.Millisecond
	pause := time.Duration(0)
	for {
		var again <-chan time.Time
		if pause > 0 {
			again = time.After(pause)
		}
		select {
		case <-s.ctx.Done():
			return
		case <-s.kick:
			pause = 0
		case <-again:
		}
		if s.buryDead() {
			pause = min(max(2*pause, shortest), longest)
		} else {
			pause = 0
		}
	}
}

// buryDead ends the sessions of the dead, and reports whether orphans are left.
func (s *server) buryDead() (left bool) {
	s.mu.Lock()
	orphans := make([]*session, 0, 8)
	for _, sess := range s.sessions {
		sess.mu.Lock()
		if sess.out == nil {
			orphans = append(orphans, sess)
		}
		sess.mu.Unlock()
	}
	awaited := make([]memberID, 0, len(s.awaited))
	for id := range s.awaited {
		if id != nobody {
			awaited = append(awaited, id)
		}
	}
	s.mu.Unlock()
	for _, sess := range orphans {
		if alive, err := s.at.lives(sess.member); err == nil && !alive {
			sess.bury()
		} else {
			left = true
		}
	}
	for _, id := range awaited {
		if alive, err := s.at.lives(id); err == nil && !alive {
			s.report(id)
		} else {
			left = true
		}
	}
	return left
}
