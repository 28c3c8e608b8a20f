//go:build linux || darwin

package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/gocoord/coord/backend"
)

// first finds a server, or becomes it. What waiting does not mend is an error.
func (b *Backend) first(ctx context.Context) (*attachment, error) {
	deadline := time.Now().Add(patience)
	var pause backoff
	for {
		occ, err := b.at.occupied()
		if err == nil && occ == aFile {
			if err = b.at.awaitRemoval(ctx); err != nil {
				return nil, err
			}
			deadline = time.Now().Add(patience)
			continue
		}
		if err == nil && b.member == nil {
			b.member, err = b.at.join()
		}
		if err != nil {
			return nil, err
		}
		a, err := b.attach(ctx)
		if err == nil {
			return a, nil
		}
		if !passing(err) {
			return nil, err
		}
		if time.Now().After(deadline) {
			return nil, backend.Unavailable(b.at.path, err)
		}
		if !pause.wait(ctx) {
			return nil, fmt.Errorf("%w (%w)", backend.ContextError(ctx), err)
		}
	}
}

// An attachment is a connection to a server, or the server itself.
type attachment struct {
	server  *server
	loop    *loopback
	wire    *wire
	sidecar identity
}

// A passing error is one of a moment in which servers change.
type passingError struct{ error }

func (p passingError) Unwrap() error { return p.error }

func passing(err error) bool {
	var p passingError
	return errors.As(err, &p)
}

// attach connects to the server at the path, or becomes it.
func (b *Backend) attach(ctx context.Context) (*attachment, error) {
	w, err := b.dial(ctx)
	switch {
	case err == nil:
		return b.greet(ctx, w)
	case errors.Is(err, syscall.EAGAIN):
		return nil, passingError{err} // its backlog is full
	case !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	s, takeErr := takeOver(b.at, b.member.id)
	switch {
	case errors.Is(takeErr, errOccupied):
		return nil, passingError{takeErr}
	case takeErr != nil:
		return nil, takeErr
	case s == nil:
		return nil, passingError{fmt.Errorf("another process is about to serve (%w)", err)}
	}
	return b.serve(s)
}

func (b *Backend) dial(ctx context.Context) (*wire, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", b.via)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		_ = c.Close()
		return nil, fmt.Errorf("%w: a connection of type %T", backend.ErrUnsupported, c)
	}
	if err := b.at.checkPeer(u); err != nil {
		_ = c.Close()
		return nil, err
	}
	w, err := newWire(u)
	if err != nil {
		_ = c.Close()
	}
	return w, err
}

// greet introduces this client to the server, and settles with it what both
// believe: leases that the server does not know are lost, claims that this
// client gave up are dropped, and what was not answered is asked again.
func (b *Backend) greet(ctx context.Context, w *wire) (*attachment, error) {
	stop := context.AfterFunc(ctx, func() { _ = w.conn.Close() })
	defer stop()
	peer := "the server"
	if pid, _, err := peerOf(w.conn); err == nil {
		peer = fmt.Sprintf("the server, process %d,", pid)
	}
	_ = w.conn.SetReadDeadline(time.Now().Add(patience))
	w.send(b.hello())
	body, err := w.receive(maxReply)
	if err != nil {
		w.close()
		if errors.Is(err, os.ErrDeadlineExceeded) || ctx.Err() != nil {
			err = fmt.Errorf("%s does not answer: is it stopped?", peer)
			return nil, backend.Unavailable(b.at.path, err)
		}
		return nil, passingError{err}
	}
	_ = w.conn.SetReadDeadline(time.Time{})
	r, err := parseReply(body)
	if err == nil {
		err = r.err()
	}
	if err != nil {
		w.close()
		return nil, err
	}
	id, err := identifyPath(b.at.sidecar())
	if err != nil {
		w.close()
		return nil, passingError{err}
	}
	w.turns = newTurns()
	b.settle(w, peer, r.held)
	return &attachment{wire: w, sidecar: id}, nil
}

func identifyPath(path string) (identity, error) {
	fi, err := os.Lstat(path)
	if err != nil {
		return identity{}, err
	}
	return identityOf(fi), nil
}

// hello names the claims that go on.
func (b *Backend) hello() *request {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := &request{op: opHello, member: b.member.id}
	for seq := range b.leases {
		q.seqs = append(q.seqs, seq)
	}
	for seq, c := range b.calls {
		if c.op == opAcquire {
			q.seqs = append(q.seqs, seq)
		}
	}
	return q
}

// serve makes this client the server.
func (b *Backend) serve(s *server) (*attachment, error) {
	select {
	case <-s.gate:
	case <-b.ctx.Done():
		s.stop()
		return nil, backend.ErrClosed
	}
	sess := s.session(b.member.id)
	lo := newLoopback(b, sess)
	hello := b.hello()
	if !sess.attach(lo, 0, hello.seqs) {
		lo.close()
		s.stop()
		return nil, passingError{errors.New("the server ended as it began")}
	}
	held := <-lo.greeting
	b.settle(lo, "this process", held)
	b.server.Store(s)
	return &attachment{server: s, loop: lo, sidecar: s.id}, nil
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
