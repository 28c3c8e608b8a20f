package zookeeper

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/gocoord/coord/internal/remote"
)

// A Dialer makes the connections of a zk.Conn and reads along on them: which
// session there is, what timeout the service granted, and when the last request
// that it answered was sent. The client tells none of that, and a holder needs
// it to notice in time that it is cut off.
//
// Give its Dial to zk.WithDialer, and the Dialer itself to [New].
type Dialer struct {
	tls *tls.Config

	mu      sync.Mutex
	closed  bool
	ended   bool // the service confirmed the end of the session
	wires   map[*wire]struct{}
	now     *term // nil: no session
	up      *wire // the connection that has it; nil: none
	epoch   uint64
	heard   time.Time            // when anything was last answered
	changed chan struct{}        // closed when now or up changes
	expects map[string]*sentence // creates that are waited for, by path
}

// A term is a session of the service's, for as long as it was renewed in time.
// One that was silent for too long and is renewed after all is another term:
// what was held in it counts as lost.
type term struct {
	id      int64
	timeout time.Duration
	over    chan struct{} // closed when it has ended
	renewed time.Time     // guarded by Dialer.mu: when the last answered request was sent
}

// A sentence is a create on its way.
type sentence struct {
	sent chan struct{} // closed once it is written
	once sync.Once
	zxid int64 // of the transaction, once it is answered
}

// margin is by how much a hold ends before the session can: clocks may run at
// different rates, and a process needs time to act.
func margin(timeout time.Duration) time.Duration {
	return max(timeout/10, 100*time.Millisecond)
}

func (t *term) deadline() time.Time { return t.renewed.Add(t.timeout - margin(t.timeout)) }

// NewDialer makes a Dialer for one zk.Conn. With a config it speaks TLS; the
// name in the servers' certificates has to be that in the address, unless the
// config has another.
func NewDialer(config *tls.Config) *Dialer {
	return &Dialer{
		tls: config, wires: make(map[*wire]struct{}), heard: time.Now(),
		changed: make(chan struct{}), expects: make(map[string]*sentence),
	}
}

var errDialerClosed = errors.New("zookeeper: the client is closed")

// Dial is a zk.Dialer.
func (d *Dialer) Dial(network, address string, timeout time.Duration) (net.Conn, error) {
	patience := d.patience()
	ctx, cancel := context.WithTimeout(context.Background(), min(timeout, patience))
	defer cancel()
	if d.isClosed() {
		return nil, errDialerClosed
	}
	start := time.Now()
	conn, err := d.dial(ctx, network, address)
	if err != nil {
		// The client tries the next server at once.
		time.Sleep(max(0, remote.ShortestPause-time.Since(start)))
		return nil, err
	}
	w := &wire{Conn: conn, d: d, sent: make(map[int32]request)}
	// The client waits for the answer to its greeting nearly for ever.
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		_ = conn.Close()
		return nil, errDialerClosed
	}
	d.wires[w] = struct{}{}
	return w, nil
}

func (d *Dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if d.tls == nil {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	return (&tls.Dialer{Config: d.tls}).DialContext(ctx, network, address)
}

// patience is how long a server may take to greet.
func (d *Dialer) patience() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now == nil {
		return 2 * time.Second
	}
	return min(max(d.now.timeout/4, 500*time.Millisecond), 5*time.Second)
}

func (d *Dialer) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// shut closes all connections, and makes no others.
func (d *Dialer) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for w := range d.wires {
		_ = w.Conn.Close()
	}
}

// confirmed reports whether the service confirmed the end of the session.
func (d *Dialer) confirmed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ended
}

// current is the session, nil if there is none, and what tells of another.
func (d *Dialer) current() (*term, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now, d.changed
}

// awaitConnection waits for a connection that has a session.
func (d *Dialer) awaitConnection(ctx context.Context) {
	for {
		d.mu.Lock()
		up, changed := d.up != nil, d.changed
		d.mu.Unlock()
		if up {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// deadline is until when a term is certain.
func (d *Dialer) deadline(t *term) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return t.deadline()
}

// sessionID is 0 while there is no session.
func (d *Dialer) sessionID() int64 {
	if t, _ := d.current(); t != nil {
		return t.id
	}
	return 0
}

// connections counts the connections that got a session.
func (d *Dialer) connections() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.epoch
}

func (d *Dialer) lastHeard() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.heard
}

// expect follows the next create of a node with exactly this path.
func (d *Dialer) expect(path string) *sentence {
	e := &sentence{sent: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expects[path] = e
	return e
}

// expected ends that, and returns the create's transaction, or 0.
func (d *Dialer) expected(path string, e *sentence) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.expects[path] == e {
		delete(d.expects, path)
	}
	return e.zxid
}

// greeted notes the answer to a greeting: id is 0 if the session has expired.
func (d *Dialer) greeted(w *wire, id int64, timeout time.Duration, sent time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heard = time.Now()
	d.epoch++
	if id != 0 {
		d.up = w
	}
	if id != 0 && d.now != nil && d.now.id == id && d.heard.Before(d.now.deadline()) {
		d.now.renewed = sent
		d.broadcastLocked()
		return
	}
	d.replaceLocked(id, timeout, sent)
}

func (d *Dialer) replaceLocked(id int64, timeout time.Duration, sent time.Time) {
	if d.now != nil {
		close(d.now.over)
		d.now = nil
	}
	if id != 0 {
		d.now = &term{id: id, timeout: timeout, over: make(chan struct{}), renewed: sent}
	}
	d.broadcastLocked()
}

func (d *Dialer) broadcastLocked() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// answered notes an answer to a request.
func (d *Dialer) answered(r request, zxid int64, code int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heard = time.Now()
	if r.op == opClose {
		d.ended = true
		return
	}
	if r.expected != nil && code == 0 {
		r.expected.zxid = zxid
	}
	switch t := d.now; {
	case t == nil, code == codeExpired:
	case d.heard.After(t.deadline()):
		d.replaceLocked(t.id, t.timeout, r.at)
	case r.at.After(t.renewed):
		t.renewed = r.at
	}
}

// What of ZooKeeper's protocol a Dialer knows.
const (
	opCreate    = 1
	opClose     = -11
	xidEvent    = -1
	xidPing     = -2
	codeExpired = -112
)

type request struct {
	op       int32
	at       time.Time // before it was written
	expected *sentence
}

// A wire is a connection on which the Dialer reads along. The client writes
// each packet in one call.
type wire struct {
	net.Conn
	d *Dialer

	mu      sync.Mutex
	begun   time.Time // when the greeting was sent
	greeted bool      // it was answered
	sent    map[int32]request
	pings   []time.Time

	// Only Read uses these.
	head [20]byte // the length and the beginning of the packet that is being read
	have int      // how much of it there is
	left int      // how many bytes of the packet are still to come, after the length
}

// SetReadDeadline does nothing before the greeting was answered.
func (w *wire) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	greeted := w.greeted
	w.mu.Unlock()
	if !greeted {
		return nil
	}
	return w.Conn.SetReadDeadline(t)
}

func (w *wire) Close() error {
	w.d.mu.Lock()
	delete(w.d.wires, w)
	if w.d.up == w {
		w.d.up = nil
		w.d.broadcastLocked()
	}
	w.d.mu.Unlock()
	return w.Conn.Close()
}

// Write reports no error. The client would answer the request, and then once
// more when it finds that the connection has ended, and wait for ever to do so
// where nobody takes the second answer. It finds that by reading.
func (w *wire) Write(p []byte) (int, error) {
	e := w.writes(p)
	if _, err := w.Conn.Write(p); err != nil {
		_ = w.Conn.Close()
	} else if e != nil {
		e.once.Do(func() { close(e.sent) })
	}
	return len(p), nil
}

// writes notes what is about to be sent.
func (w *wire) writes(p []byte) *sentence {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if w.begun.IsZero() {
		w.begun = now
		return nil
	}
	if len(p) < 12 {
		return nil
	}
	xid, op := int32(binary.BigEndian.Uint32(p[4:])), int32(binary.BigEndian.Uint32(p[8:]))
	if xid == xidPing {
		w.pings = append(w.pings, now)
		return nil
	}
	r := request{op: op, at: now}
	if op == opCreate && len(p) >= 16 {
		if n := int(binary.BigEndian.Uint32(p[12:])); n >= 0 && 16+n <= len(p) {
			w.d.mu.Lock()
			r.expected = w.d.expects[string(p[16:16+n])]
			w.d.mu.Unlock()
		}
	}
	w.sent[xid] = r
	return r.expected
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		rest = w.reads(rest)
	}
	return n, err
}

// reads takes what belongs to the present packet and returns the rest.
func (w *wire) reads(p []byte) []byte {
	if w.have < 4 {
		n := copy(w.head[w.have:4], p)
		if w.have += n; w.have == 4 {
			w.left = int(int32(binary.BigEndian.Uint32(w.head[:])))
		}
		return p[n:]
	}
	n := min(len(p), w.left)
	w.have += copy(w.head[w.have:], p[:n])
	if w.left -= n; w.left == 0 {
		w.packet(w.head[4:w.have])
		w.have = 0
	}
	return p[n:]
}

// packet looks at the first bytes of a packet that has come in.
func (w *wire) packet(p []byte) {
	if len(p) < 16 {
		return
	}
	w.mu.Lock()
	if !w.greeted {
		w.greeted = true
		sent := w.begun
		w.mu.Unlock()
		_ = w.Conn.SetReadDeadline(time.Time{})
		timeout := time.Duration(int32(binary.BigEndian.Uint32(p[4:]))) * time.Millisecond
		w.d.greeted(w, int64(binary.BigEndian.Uint64(p[8:])), timeout, sent)
		return
	}
	xid := int32(binary.BigEndian.Uint32(p))
	r, known := w.sent[xid]
	switch {
	case known:
		delete(w.sent, xid)
	case xid == xidPing && len(w.pings) > 0:
		r.at, known = w.pings[0], true
		w.pings = w.pings[1:]
	}
	w.mu.Unlock()
	if known {
		w.d.answered(r, int64(binary.BigEndian.Uint64(p[4:])), int32(binary.BigEndian.Uint32(p[12:])))
	}
}
