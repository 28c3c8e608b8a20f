package testenv

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pair is a client's connection and the one to the server that belongs to it.
// All fields are guarded by the proxy's mu.
type pair struct {
	p      *Proxy
	client net.Conn
	server net.Conn // nil until dialed
	pipes  [2]*pipe // by direction

	ctx    context.Context // ends with the pair
	cancel context.CancelFunc

	cut        *cutAfter // set once the request was read that is this client's last
	clientGone bool      // the client was cut off and replies go nowhere
	closed     bool
}

// pipe carries one direction of a pair: one goroutine reads into the queue and
// another writes from it, so that bytes can wait without being left unread.
type pipe struct {
	pr       *pair
	dir      direction
	src, dst net.Conn

	queue   []chunk
	queued  int  // bytes in the queue
	writing bool // a write to dst is under way

	wakeWriter chan struct{} // holds at most one signal
	wakeReader chan struct{} // holds at most one signal
}

// chunk is what was read at once, or the end of what there is to read.
type chunk struct {
	data []byte
	due  time.Time
	end  error // io.EOF or why reading failed; then there are no data
	last bool  // the client is cut off after these data
}

const (
	readSize = 64 << 10
	// queueLimit is where a sender is made to wait, as by a full window of TCP.
	queueLimit = 16 << 20
)

func newPair(p *Proxy, client net.Conn) *pair {
	pr := &pair{p: p, client: client}
	pr.ctx, pr.cancel = context.WithCancel(p.ctx)
	for _, dir := range []direction{requests, replies} {
		pr.pipes[dir] = &pipe{pr: pr, dir: dir, wakeWriter: make(chan struct{}, 1), wakeReader: make(chan struct{}, 1)}
	}
	return pr
}

func (pr *pair) run() {
	defer pr.remove()
	if !pr.dial() {
		return
	}
	var wg sync.WaitGroup
	for _, pi := range pr.pipes {
		wg.Go(pi.read)
		wg.Go(pi.write)
	}
	wg.Wait()
}

// dial connects to the server, as soon as requests can reach it.
func (pr *pair) dial() bool {
	p := pr.p
	p.mu.Lock()
	for p.muted[requests] && !pr.closed {
		p.mu.Unlock()
		pr.pipes[requests].awaitWriterWake(nil)
		p.mu.Lock()
	}
	p.mu.Unlock()
	server, err := (&net.Dialer{}).DialContext(pr.ctx, p.network, p.target)
	if err != nil {
		return false // the client is closed as if the server had been dialed itself
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if pr.closed {
		reset(server)
		return false
	}
	pr.server = server
	pr.pipes[requests].src, pr.pipes[requests].dst = pr.client, server
	pr.pipes[replies].src, pr.pipes[replies].dst = server, pr.client
	return true
}

func (pr *pair) remove() {
	p := pr.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if pr.server != nil && !pr.closed {
		// Both directions came to their orderly end. A reset now could
		// overtake the last bytes.
		pr.closed = true
		pr.cancel()
		_ = pr.client.Close()
		_ = pr.server.Close()
	}
	pr.close()
	for _, pi := range pr.pipes {
		p.stats.withheld(pi.dir, -pi.queued)
	}
	delete(p.pairs, pr)
	p.stats.Open--
	p.notify()
}

// close ends the pair; p.mu is held.
func (pr *pair) close() {
	if pr.closed {
		return
	}
	pr.closed = true
	pr.cancel()
	reset(pr.client)
	if pr.server != nil {
		reset(pr.server)
	}
	pr.wake()
}

func (pr *pair) wake() {
	for _, pi := range pr.pipes {
		signal(pi.wakeWriter)
		signal(pi.wakeReader)
	}
}

// withholds tells whether a mute keeps something back; p.mu is held.
func (pr *pair) withholds() bool {
	for _, pi := range pr.pipes {
		if pr.p.muted[pi.dir] && len(pi.queue) > 0 {
			return true
		}
	}
	return false
}

// read fills the queue until there is nothing more to read.
func (pi *pipe) read() {
	buf := make([]byte, readSize)
	for {
		n, err := pi.src.Read(buf)
		if n > 0 && !pi.enqueue(chunk{data: append([]byte(nil), buf[:n]...)}) {
			return
		}
		if err != nil {
			pi.enqueue(chunk{end: err})
			return
		}
	}
}

// enqueue reports whether to go on reading.
func (pi *pipe) enqueue(c chunk) bool {
	pr, p := pi.pr, pi.pr.p
	p.mu.Lock()
	defer p.mu.Unlock()
	for pi.queued >= queueLimit && !pr.closed {
		p.mu.Unlock()
		select {
		case <-pi.wakeReader:
		case <-pr.ctx.Done():
		}
		p.mu.Lock()
	}
	if pr.closed || pi.dir == requests && pr.cut != nil {
		return false
	}
	if pi.dir == requests && c.end == nil && p.cutAfter != nil && p.cutAfter.match(c.data) {
		pr.cut, p.cutAfter = p.cutAfter, nil
		c.last = true
		// From here on no reply may pass; one to an earlier request that is
		// under way may, but only before this request is passed on.
		p.stopWriting(pr.pipes[replies])
	}
	c.due = time.Now().Add(p.delay)
	pi.queue = append(pi.queue, c)
	pi.queued += len(c.data)
	p.stats.withheld(pi.dir, len(c.data))
	p.notify()
	signal(pi.wakeWriter)
	return !c.last
}

// write empties the queue until the end was passed on.
func (pi *pipe) write() {
	pr, p := pi.pr, pi.pr.p
	for {
		c, ok := pi.next()
		if !ok {
			return
		}
		if c.end != nil {
			pi.writeEnd(c.end)
			return
		}
		n, err := pi.dst.Write(c.data)
		p.mu.Lock()
		pi.writing = false
		pi.wrote(n)
		if err == nil && c.last {
			pr.loseClient()
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			// The receiver is gone, which its own side of the pair notices too;
			// as without a proxy the sender is to know.
			pr.close()
		}
		p.notify()
		p.mu.Unlock()
	}
}

// next waits for a chunk that may be passed on now and marks the pipe as
// writing. It leaves the chunk in the queue, since a mute can interrupt the
// write. It returns false when the pair is closed.
func (pi *pipe) next() (chunk, bool) {
	pr, p := pi.pr, pi.pr.p
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if pr.closed {
			return chunk{}, false
		}
		if pi.dir == replies && pr.clientGone {
			pi.drop()
		}
		var wait <-chan time.Time
		if len(pi.queue) > 0 && !p.muted[pi.dir] && (pi.dir == requests || pr.cut == nil) {
			c := pi.queue[0]
			left := time.Until(c.due)
			if left <= 0 {
				if c.end == nil {
					pi.writing = true
					pi.allow()
				}
				return c, true
			}
			wait = time.After(left)
		}
		p.mu.Unlock()
		pi.awaitWriterWake(wait)
		p.mu.Lock()
	}
}

func (pi *pipe) awaitWriterWake(or <-chan time.Time) {
	select {
	case <-pi.wakeWriter:
	case <-or:
	case <-pi.pr.ctx.Done():
	}
}

// wrote takes n written bytes off the head of the queue; p.mu is held.
func (pi *pipe) wrote(n int) {
	head := &pi.queue[0]
	head.data = head.data[n:]
	head.due = time.Time{} // a rest that was interrupted is not delayed again
	whole := len(head.data) == 0
	if whole {
		pi.queue = pi.queue[1:]
	}
	pi.queued -= n
	pi.pr.p.stats.passed(pi.dir, n, whole)
	signal(pi.wakeReader)
}

// drop empties the queue of replies that have no receiver; p.mu is held. An end
// of the server's side ends the pair.
func (pi *pipe) drop() {
	pr, p := pi.pr, pi.pr.p
	for _, c := range pi.queue {
		p.stats.withheld(pi.dir, -len(c.data))
		p.stats.DroppedReplyBytes += len(c.data)
		if c.end != nil {
			pr.close()
		}
	}
	pi.queue, pi.queued = nil, 0
	signal(pi.wakeReader)
	p.notify()
}

// writeEnd passes the end of one direction on: an orderly end closes that
// direction only, anything else both.
func (pi *pipe) writeEnd(end error) {
	pr, p := pi.pr, pi.pr.p
	p.mu.Lock()
	defer p.mu.Unlock()
	half, ok := pi.dst.(interface{ CloseWrite() error })
	if !errors.Is(end, io.EOF) || !ok || half.CloseWrite() != nil {
		pr.close()
	}
	pi.queue = pi.queue[1:]
}

// loseClient closes the client's side only; p.mu is held.
func (pr *pair) loseClient() {
	pr.clientGone = true
	reset(pr.client)
	close(pr.cut.done)
	signal(pr.pipes[replies].wakeWriter)
}

// interrupt ends the write that is under way; p.mu is held.
func (pi *pipe) interrupt() {
	// An error means that the connection is closed, which ends the write too.
	_ = pi.dst.SetWriteDeadline(time.Unix(1, 0))
}

// allow takes an interrupt back before the next write; p.mu is held.
func (pi *pipe) allow() { _ = pi.dst.SetWriteDeadline(time.Time{}) }

// reset closes a connection at once instead of orderly, so that its other end
// sees a loss rather than the end of a conversation.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	// It may be closed already, and nobody can do anything about an error.
	_ = c.Close()
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
