package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Proxy passes bytes between clients and one server and breaks the network
// between them in the way a test asks for. Its methods may be called from any
// goroutine and take hold before they return: nothing is passed on against them
// afterwards. What the proxy handed to the system before can still arrive.
// Heal and Await can fail the test, so in other goroutines than its own a
// Reporter is needed whose Fatalf allows that.
type Proxy struct {
	tb      Reporter
	network string
	target  string
	addr    string
	dir     string // of the Unix socket

	ctx    context.Context // ends with the proxy
	cancel context.CancelFunc
	wg     sync.WaitGroup // every goroutine of the proxy

	mu       sync.Mutex
	listener net.Listener // nil while cut
	pairs    map[*pair]struct{}
	muted    [2]bool // by direction
	delay    time.Duration
	cutAfter *cutAfter
	stats    Stats
	changed  chan struct{} // closed at the next change, if somebody waits for one
	closed   bool
}

// direction tells the two ways through a proxy apart.
type direction int

const (
	requests direction = iota // from the client to the server
	replies                   // from the server to the client
)

// cutAfter is a connection loss that waits for its request.
type cutAfter struct {
	match func([]byte) bool
	done  chan struct{}
}

// NewProxy starts a proxy before the server at target, which is a host:port if
// network is "tcp" and a path if it is "unix". It passes everything on until it
// is told otherwise, and is closed at the end of the test. The server need not
// run yet: it is dialed anew for each connection of a client.
func NewProxy(tb Reporter, network, target string) *Proxy {
	tb.Helper()
	p := &Proxy{tb: tb, network: network, target: target, pairs: map[*pair]struct{}{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if err := p.listenFirst(); err != nil {
		p.cancel()
		tb.Fatalf("testenv: NewProxy(%q, %q): %v", network, target, err)
	}
	tb.Cleanup(p.Close)
	return p
}

// listenFirst picks the proxy's address, which it keeps from then on.
func (p *Proxy) listenFirst() error {
	switch p.network {
	case "tcp":
		var err error
		for range 10 {
			var ports []int
			if ports, err = freePorts(1); err != nil {
				return err
			}
			p.addr = loopback(ports[0])
			if err = p.listen(); err == nil {
				return nil
			}
		}
		return err
	case "unix":
		// The path of a socket is limited to about a hundred bytes, which a
		// directory named after a test easily exceeds.
		dir, err := os.MkdirTemp("", "proxy")
		if err != nil {
			return err
		}
		p.dir, p.addr = dir, filepath.Join(dir, "s")
		if err := p.listen(); err != nil {
			return errors.Join(err, os.RemoveAll(dir))
		}
		return nil
	default:
		return errors.New(`the network is neither "tcp" nor "unix"`)
	}
}

func (p *Proxy) listen() error {
	l, err := (&net.ListenConfig{}).Listen(p.ctx, p.network, p.addr)
	if err != nil {
		return err
	}
	p.listener = l
	p.wg.Go(func() { p.accept(l) })
	return nil
}

func (p *Proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err == nil {
			p.add(l, client)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		// A client that was gone before it was accepted, or a shortage of file
		// descriptors that will pass.
		select {
		case <-p.ctx.Done():
			return
		case <-time.After(pollEvery):
		}
	}
}

func (p *Proxy) add(l net.Listener, client net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != l {
		// Accepted in the moment of a cut.
		reset(client)
		return
	}
	p.stats.Connections++
	p.stats.Open++
	p.notify()
	pr := newPair(p, client)
	p.pairs[pr] = struct{}{}
	p.wg.Go(pr.run)
}

// Addr is where clients connect: host:port or the path of a Unix socket.
func (p *Proxy) Addr() string { return p.addr }

// Cut closes all connections and refuses new ones until Heal. Bytes that were
// withheld by then are lost.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeListener()
	for pr := range p.pairs {
		pr.close()
	}
	p.notify()
}

// Mute turns the proxy into a black hole in both directions: connections stay
// open and pass nothing, not even their end, and new ones are accepted and stay
// silent. What is sent meanwhile is withheld and arrives after Heal, as TCP
// would send it again, and connections opened meanwhile reach the server then.
func (p *Proxy) Mute() { p.mute(requests, replies) }

// MuteReplies withholds what the server says while requests still reach it, and
// the end of a connection along with it. The replies arrive after Heal.
func (p *Proxy) MuteReplies() { p.mute(replies) }

func (p *Proxy) mute(dirs ...direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, dir := range dirs {
		p.muted[dir] = true
	}
	// A write that began before may still be under way, and may not end by
	// itself if its receiver hangs.
	for pr := range p.pairs {
		for _, dir := range dirs {
			p.stopWriting(pr.pipes[dir])
		}
	}
}

// stopWriting returns once the pipe has no write under way; p.mu is held, but
// released while waiting.
func (p *Proxy) stopWriting(pi *pipe) {
	for pi.writing {
		pi.interrupt()
		changed := p.change()
		p.mu.Unlock()
		<-changed
		p.mu.Lock()
	}
}

// Delay holds everything back for d in each direction from now on: bytes keep
// their order and do not wait for one another, so that throughput stays. Bytes
// already under way keep the delay they came in with. Heal sets it to 0.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Heal ends Cut, Mute, MuteReplies and Delay, and calls off a CutAfterRequest
// that did not happen yet. What was withheld is passed on.
func (p *Proxy) Heal() { p.heal(false) }

// HealDropping is Heal, but closes every connection from which something was
// withheld instead of passing it on late.
func (p *Proxy) HealDropping() { p.heal(true) }

func (p *Proxy) heal(drop bool) {
	p.tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.delay = 0
	p.cutAfter = nil
	for pr := range p.pairs {
		if pr.clientGone || drop && pr.withholds() {
			pr.close()
		}
	}
	p.muted = [2]bool{}
	for pr := range p.pairs {
		pr.wake()
	}
	if p.listener == nil {
		if err := p.listenAgain(); err != nil {
			p.tb.Fatalf("testenv: Heal: listen again on %s: %v", p.addr, err)
		}
	}
	p.notify()
}

// listenAgain takes the old address back. Another process that looks for a free
// port may hold it for a moment.
func (p *Proxy) listenAgain() error {
	for try := 0; ; try++ {
		err := p.listen()
		if err == nil || try == 100 {
			return err
		}
		time.Sleep(pollEvery)
	}
}

// CutAfterRequest waits for a client to send bytes for which match returns
// true, passes them on to the server, and then closes the client's connection
// before any reply to them comes back. It does so once. The server's side of
// that connection stays open until Heal, Cut or Close, and its replies go
// nowhere: a server that gives up on a request when its client is gone would
// otherwise race with the loss. So the request is carried out, and the client
// cannot know.
//
// match sees the bytes as they were read: what the client wrote at once, unless
// that is longer than a read (64 KiB). It must not keep them, nor use the
// proxy. Over TLS it sees nothing that it could recognise. The channel that is
// returned is closed when the client's connection is.
func (p *Proxy) CutAfterRequest(match func([]byte) bool) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutAfter = &cutAfter{match: match, done: make(chan struct{})}
	return p.cutAfter.done
}

// Close closes all connections and waits until every goroutine of the proxy has
// ended. The test does so by itself in the end.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.closeListener()
	for pr := range p.pairs {
		pr.close()
	}
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
	if p.dir == "" {
		return
	}
	if err := os.RemoveAll(p.dir); err != nil {
		p.tb.Logf("testenv: %v", err)
	}
}

func (p *Proxy) closeListener() {
	if p.listener == nil {
		return
	}
	if err := p.listener.Close(); err != nil {
		p.tb.Logf("testenv: proxy: %v", err)
	}
	p.listener = nil
}

// String describes the proxy in the messages of a test.
func (p *Proxy) String() string { return fmt.Sprintf("proxy %s to %s", p.addr, p.target) }
