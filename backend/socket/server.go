//go:build linux || darwin

package socket

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/backend/memory"
)

// A server answers all clients of a path. Only who has the flock of the
// sidecar makes one.
type server struct {
	at      layout
	self    memberID // of the client whose server it is
	sidecar *os.File
	id      identity // of the sidecar
	journal *journal
	host    *memory.Host
	local   *memory.Backend // the serving client's own claims
	ln      *net.UnixListener
	socket  identity // of the socket at the path
	gate    chan struct{}

	ctx    context.Context
	cancel context.CancelFunc
	failed chan error // has a value when the server cannot go on
	loops  sync.WaitGroup
	kick   chan struct{} // there is an orphan

	mu       sync.Mutex
	stopping bool
	sessions map[memberID]*session
	wires    map[*wire]struct{}
	awaited  map[memberID]bool // who has to report before anything is granted
}

// hello is for how long a new connection may say nothing.
const helloTimeout = 10 * time.Second

// takeOver makes a server, with all that its predecessor knew. It returns nil
// if there is another server, or one in the making.
func takeOver(at layout, self memberID) (*server, error) {
	if err := at.makeDir(); err != nil {
		return nil, err
	}
	sidecar, id, err := at.lockAt(at.sidecar())
	if err != nil || sidecar == nil {
		return nil, err
	}
	s := &server{
		at: at, self: self, sidecar: sidecar, id: id,
		gate: make(chan struct{}), failed: make(chan error, 1), kick: make(chan struct{}, 1),
		sessions: make(map[memberID]*session), wires: make(map[*wire]struct{}), awaited: make(map[memberID]bool),
	}
	if err := s.inherit(); err != nil || s.journal == nil {
		s.abandon()
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.publish(); err != nil {
		s.cancel()
		s.abandon()
		return nil, err
	}
	s.loops.Go(s.accept)
	s.loops.Go(s.mindOrphans)
	s.wakeOrphans()
	return s, nil
}

// abandon gives back what an attempt to serve has taken.
func (s *server) abandon() {
	if s.journal != nil {
		s.journal.close()
	}
	_ = s.sidecar.Close()
}

// inherit reads the journal and restores what counts.
func (s *server) inherit() error {
	j, fresh, err := openJournal(s.at)
	if err != nil || j == nil {
		return err
	}
	s.journal = j
	j.broken = s.fail
	living, err := s.census()
	if err != nil {
		return err
	}
	start := max(uint64(time.Now().UnixMicro()), j.mark)
	if err := j.reserve(start + reserveStep); err != nil {
		return fmt.Errorf("journal %s: %w", s.at.journal(), err)
	}
	if err := s.prune(living); err != nil {
		return err
	}
	s.host = memory.NewHost(j, start, j.mark)
	s.restore()
	s.local = s.host.Local()
	if fresh {
		// Where a journal was removed under those who use it, they have to
		// learn that nobody knows their claims before others get them: by
		// their own watches, or from this server.
		for id := range living {
			s.awaited[id] = true
		}
		delete(s.awaited, s.self)
		s.awaited[nobody] = true
		time.AfterFunc(firstPause, func() { s.report(nobody) })
		time.AfterFunc(gatherTimeout, s.open)
		return nil
	}
	close(s.gate)
	return nil
}

// A server without a journal, which is the first one, or comes after somebody
// removed everything, grants nothing for a moment; and not before all who live
// were told what it knows of them. The latter is bounded.
const (
	firstPause    = 30 * time.Millisecond
	gatherTimeout = 2 * time.Second
	nobody        = memberID(0)
)

// report notes that a member has been told what the server knows of it.
func (s *server) report(id memberID) {
	s.mu.Lock()
	if !s.awaited[id] {
		s.mu.Unlock()
		return
	}
	delete(s.awaited, id)
	last := len(s.awaited) == 0
	s.mu.Unlock()
	if last {
		s.open()
	}
}

// open begins to grant.
func (s *server) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.gate:
	default:
		clear(s.awaited)
		close(s.gate)
	}
}

// census asks the kernel who lives, of those that have a file and those that
// the journal names.
func (s *server) census() (map[memberID]bool, error) {
	ids, err := s.at.members()
	if err != nil {
		return nil, err
	}
	living := make(map[memberID]bool)
	for _, id := range ids {
		alive, err := s.at.lives(id)
		if err != nil {
			return nil, err
		}
		if alive {
			living[id] = true
		}
	}
	return living, nil
}

// prune drops what the dead had claimed, and writes the journal anew where that
// makes it much smaller.
func (s *server) prune(living map[memberID]bool) error {
	j := s.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	for it := range j.items {
		if it.claim && !living[it.author.member] {
			j.drop(it)
		}
	}
	if j.end > tinyJournal && j.live <= j.end/2 {
		j.shrink()
	}
	return j.err
}

// restore fills the engine: registers as they were, and claims in order of
// their arrival, so that those are admitted who were, and those who are next.
func (s *server) restore() {
	var claims []*item
	for it := range s.journal.items {
		if it.claim {
			claims = append(claims, it)
			continue
		}
		s.host.RestoreRegister(it.place, it.record.data, it.token, it.author)
		it.record = record{}
	}
	slices.SortFunc(claims, func(a, b *item) int { return cmp.Compare(a.token, b.token) })
	for _, it := range claims {
		sess := s.session(it.author.member)
		c := &claimant{author: it.author, item: it, session: sess}
		c.entry, c.granted = s.host.Restore(it.place, it.record.claim, it.token, it.record.since, c, c.admitted)
		sess.claims[it.author.number] = c
		it.record = record{}
	}
}

// session returns the session of a member, and makes it if there is none.
func (s *server) session(id memberID) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess := s.sessions[id]
	if sess == nil {
		sess = &session{server: s, member: id, claims: make(map[uint64]*claimant), watches: make(map[uint64]context.CancelFunc)}
		s.sessions[id] = sess
	}
	return sess
}

// publish puts a listening socket at the path. It listens before anybody can
// find it, and replaces nothing but a socket.
func (s *server) publish() error {
	var random [4]byte
	_, _ = rand.Read(random[:])
	name := fmt.Sprintf("s-%x", random)
	tmp := filepath.Join(s.at.dir(), name)
	ln, err := listen(s.at.dir(), name, s.at.mode)
	if err != nil {
		return fmt.Errorf("a socket in %s: %w", s.at.dir(), err)
	}
	defer os.Remove(tmp) //nolint:errcheck // it is gone if all went well
	err = os.Chmod(tmp, s.at.mode)
	if err == nil {
		err = s.place(tmp)
	}
	if err != nil {
		_ = ln.Close()
		return err
	}
	fi, err := os.Lstat(s.at.path)
	if err != nil {
		_ = ln.Close()
		return err
	}
	s.ln, s.socket = ln, identityOf(fi)
	return nil
}

func (s *server) place(tmp string) error {
	for range 100 {
		switch occ, err := s.at.occupied(); {
		case err != nil:
			return err
		case occ == aFile:
			return errOccupied
		case occ == aSocket:
			return os.Rename(tmp, s.at.path) // a predecessor's
		}
		if err := os.Link(tmp, s.at.path); !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return errOccupied
}

var errOccupied = errors.New("a regular file is at the path")

func listenUnix(lc net.ListenConfig, path string) (*net.UnixListener, error) {
	ln, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	l, ok := ln.(*net.UnixListener)
	if !ok {
		_ = ln.Close()
		return nil, fmt.Errorf("%w: a listener of type %T", backend.ErrUnsupported, ln)
	}
	// By the time it closes, the path may be a successor's.
	l.SetUnlinkOnClose(false)
	return l, nil
}

// republish puts a socket at the path again when somebody removed it. Nobody
// else can: that takes the flock.
func (s *server) republish() error {
	if s.socket.is(s.at.path) {
		return nil
	}
	if occ, err := s.at.occupied(); err != nil || occ == aFile {
		return err // it is waited for, and those who are connected go on
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return nil
	}
	old := s.ln
	if err := s.publish(); err != nil {
		return err
	}
	_ = old.Close()
	s.loops.Go(s.accept)
	return nil
}

// fail ends the server from inside.
func (s *server) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// stop ends the server. From when the journal is closed nothing is granted,
// so that the successor may go on before all is tidied up.
func (s *server) stop() {
	s.mu.Lock()
	crashed := s.stopping // a test's doing: the socket stays
	s.stopping = true
	ln, socket := s.ln, s.socket
	s.mu.Unlock()
	s.journal.close()
	if !crashed && socket.is(s.at.path) && s.id.is(s.at.sidecar()) {
		_ = os.Remove(s.at.path)
	}
	_ = s.sidecar.Close()
	s.hangUp(ln)
}

// hangUp ends all connections and goroutines.
func (s *server) hangUp(ln *net.UnixListener) {
	s.cancel()
	_ = ln.Close()
	s.open()
	s.mu.Lock()
	s.stopping = true
	wires := make([]*wire, 0, len(s.wires))
	for w := range s.wires {
		wires = append(wires, w)
	}
	s.mu.Unlock()
	for _, w := range wires {
		_ = w.conn.Close()
	}
	s.host.Close()
	s.loops.Wait()
}

// accept takes connections until the listener is closed.
func (s *server) accept() {
	s.mu.Lock()
	ln := s.ln
	s.mu.Unlock()
	for {
		c, err := ln.AcceptUnix()
		switch {
		case err == nil:
			s.spawn(func() { s.attend(c) }, func() { _ = c.Close() })
		case errors.Is(err, net.ErrClosed):
			return
		default: // no descriptor is free, most likely
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

// spawn runs f in a goroutine that stop waits for; or instead, if it is too
// late for that.
func (s *server) spawn(f, instead func()) {
	s.mu.Lock()
	late := s.stopping
	if !late {
		s.loops.Go(f)
	}
	s.mu.Unlock()
	if late && instead != nil {
		instead()
	}
}

// attend serves one connection.
func (s *server) attend(c *net.UnixConn) {
	w, err := newWire(c)
	if err != nil {
		_ = c.Close()
		return
	}
	s.mu.Lock()
	s.wires[w] = struct{}{}
	stopping := s.stopping
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.wires, w)
		s.mu.Unlock()
		w.close()
	}()
	if stopping {
		return
	}
	q, err := s.greet(w)
	if err != nil {
		w.send(failure(q.number, err))
		return
	}
	sess := s.session(q.member)
	if !sess.attach(w, q.number, q.seqs) {
		return
	}
	defer sess.detach(w)
	s.report(q.member)
	select {
	case <-s.gate:
	case <-s.ctx.Done():
		return
	}
	for {
		body, err := w.receive(maxRequest)
		if err != nil {
			return
		}
		q, err := parseRequest(body)
		if err != nil {
			w.send(failure(q.number, fmt.Errorf("%w: %w", backend.ErrInvalid, err)))
			return
		}
		if q.op == opHello || sess.handle(w, &q) {
			return
		}
		w.rest()
	}
}

// greet reads the first frame, and checks who is there.
func (s *server) greet(w *wire) (request, error) {
	if err := s.at.checkPeer(w.conn); err != nil {
		return request{}, err
	}
	_ = w.conn.SetReadDeadline(time.Now().Add(helloTimeout))
	body, err := w.receive(maxRequest)
	if err != nil {
		return request{}, err
	}
	_ = w.conn.SetReadDeadline(time.Time{})
	q, err := parseRequest(body)
	if err == nil && q.op != opHello {
		err = errFrame
	}
	if err != nil {
		return q, fmt.Errorf("%w: %w", backend.ErrInvalid, err)
	}
	alive, err := s.at.lives(q.member)
	if err == nil && !alive {
		err = fmt.Errorf("%w: the file of member %v is not locked", backend.ErrUnavailable, q.member)
	}
	return q, err
}

// checkPeer keeps other users out, whatever the file's mode says. Root may do
// anything anyway.
func (l layout) checkPeer(c *net.UnixConn) error {
	pid, uid, err := peerOf(c)
	if err != nil {
		return err
	}
	if me := os.Geteuid(); uid != me && uid != 0 && me != 0 && !l.group() {
		return fmt.Errorf("%w: process %d at the other end of %s is of the user with id %d, and this one of %d", fs.ErrPermission, pid, l.path, uid, me)
	}
	return nil
}
