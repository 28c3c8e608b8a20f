// Package zookeeper runs coord on a ZooKeeper ensemble.
//
// Every claim is an ephemeral sequential node:
//
//	<base>/<directory of the kind>/<escaped name>/_c_<guid>-<type><number>
//
// Claims are in order of their numbers; the transaction that made the node is
// the token. Those are the names and the order of Curator and go-zookeeper, so
// that Curator's InterProcessMutex and go-zookeeper's Lock on the path
// <base>/locks/<escaped name> contend with a Mutex of this package, and
// Curator's InterProcessReadWriteLock with an RWMutex, both ways round. With
// Kazoo's layout the names are those of its Lock, ReadLock and WriteLock. A
// node of such a client counts as the claim that its name says; a node with
// any other name is no claim and is ignored.
//
// # URLs
//
// zookeeper://host:port,host:port/base names an ensemble, zk:// is short for
// that, and zookeepers:// and zks:// speak TLS. The port is 2181 and the base
// path /coord if not given. A user and password stand before the hosts; they
// are used for digest authentication.
//
// # Time
//
// The backend ends its leases a tenth of the session's timeout (and at least
// 100 ms) before the session can expire, counted from when the last request
// that ZooKeeper answered was sent, so that a holder is told before anybody
// else is admitted. ZooKeeper itself expires a session up to a tick late, and
// starts the sessions' clocks anew when its leader changes: a crashed client's
// entries then take up to Info.Expiry longer.
//
// # Rights
//
// The user needs all rights for the base path and what is below it; where the
// base path does not exist, the right to create it in the last of its parents
// that does.
package zookeeper

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/remote"
)

const (
	defaultTimeout = 10 * time.Second
	lowestTimeout  = time.Second
	highestTimeout = time.Hour

	// late is how long after a session's timeout ZooKeeper may take to remove
	// its nodes: a tick, which is two seconds by default.
	late = 2 * time.Second

	// inFlight is how many requests a client has on their way at a time. More
	// of them would not be answered sooner, and its pings wait among them.
	inFlight = 64

	// closeTimeout bounds Close where the service does not answer.
	closeTimeout = 2 * time.Second
)

// A Backend is one client of a ZooKeeper ensemble. It implements
// backend.Backend.
type Backend struct {
	conn   *zk.Conn
	d      *Dialer
	owned  <-chan zk.Event // of a connection that Close closes; nil: the caller's
	base   string
	layout Layout
	acl    []zk.ACL
	asked  time.Duration
	info   backend.Info

	// ctx ends with Close. Background work runs under it.
	ctx    context.Context
	cancel context.CancelCauseFunc

	closeOnce sync.Once
	closeErr  error

	watches watches
	seen    seen
	rosters *remote.Reads[backend.Roster]
	loads   *remote.Reads[backend.Value]
	doubts  remote.Doubts
	room    chan struct{} // holds an element per request on its way

	mu         sync.Mutex
	background sync.WaitGroup // guarded by mu as far as Add goes
	closed     bool
	session    *session
	claims     map[string]*lease // by path, as long as the node may exist
}

var _ backend.Backend = (*Backend)(nil)

// An Option changes what New makes.
type Option func(*config)

type config struct {
	base   string
	layout Layout
	acl    []zk.ACL
	asked  time.Duration
	owned  <-chan zk.Event

	servers []string // nil: only the connection knows
}

// service names what clients share, however they list the servers.
func (c config) service(conn *zk.Conn, base string) string {
	servers := c.servers
	if servers == nil {
		servers = []string{conn.Server()}
	}
	return remote.Service(servers, base)
}

// WithBase sets the path below which all nodes are. The default is "/coord".
func WithBase(path string) Option { return func(c *config) { c.base = path } }

// WithLayout chooses the names of the nodes. The default is Curator.
func WithLayout(l Layout) Option { return func(c *config) { c.layout = l } }

// WithACL sets the rights for nodes that are created. The default is everything
// for everybody, zk.WorldACL(zk.PermAll).
func WithACL(acl []zk.ACL) Option { return func(c *config) { c.acl = acl } }

// New makes a Backend on a connection that was made with zk.WithDialer(d.Dial)
// and on which all that is needed was authenticated. It returns once there is a
// session. The connection remains the caller's: Close does not close it, but
// removes its own nodes one by one.
func New(ctx context.Context, conn *zk.Conn, d *Dialer, opts ...Option) (*Backend, error) {
	cfg := config{layout: Curator, acl: zk.WorldACL(zk.PermAll)}
	for _, o := range opts {
		o(&cfg)
	}
	base, err := cleanBase(cfg.base)
	if err != nil {
		return nil, err
	}
	if cfg.layout != Curator && cfg.layout != Kazoo {
		return nil, fmt.Errorf("%w: layout %q, want %s or %s", backend.ErrInvalid, cfg.layout, Curator, Kazoo)
	}
	if conn == nil || d == nil {
		return nil, fmt.Errorf("%w: New needs a connection and the Dialer that it was made with", backend.ErrInvalid)
	}
	b := &Backend{
		conn: conn, d: d, base: base, layout: cfg.layout, acl: cfg.acl, asked: cfg.asked,
		claims: make(map[string]*lease),
	}
	b.watches.init(b)
	b.info = backend.Info{
		Name: "zookeeper", Service: cfg.service(conn, base), Scope: backend.Network,
		FIFO: true, Fencing: true, Durable: true, Expiry: highestTimeout,
	}
	b.ctx, b.cancel = context.WithCancelCause(context.Background())
	b.rosters = remote.NewReads[backend.Roster](b.ctx, b.spawn)
	b.loads = remote.NewReads[backend.Value](b.ctx, b.spawn)
	b.room = make(chan struct{}, inFlight)
	t, err := b.awaitTerm(ctx)
	if err != nil {
		b.cancel(remote.Ended(backend.ErrClosed))
		return nil, err
	}
	b.info.Expiry = t.timeout + late
	b.info.Service = cfg.service(conn, base)
	b.owned = cfg.owned
	return b, nil
}

// Info says what this backend promises. Expiry is the timeout that ZooKeeper
// granted and the two seconds that it may take to remove what has expired.
func (b *Backend) Info() backend.Info { return b.info }

// Close releases every lease and gives the session back, which removes all its
// entries in one step. It takes three seconds at most. When ZooKeeper did not confirm
// within that time it returns backend.ErrUnavailable, and the entries go when
// the session expires.
func (b *Backend) Close() error {
	b.closeOnce.Do(func() { b.closeErr = b.close() })
	return b.closeErr
}

func (b *Backend) close() error {
	b.mu.Lock()
	b.closed = true
	s := b.session
	var left []*lease
	for _, l := range b.claims {
		left = append(left, l)
	}
	b.mu.Unlock()
	if s != nil {
		s.end(backend.ErrReleased)
	}
	b.cancel(remote.Ended(backend.ErrClosed))
	if b.owned == nil {
		return b.leave(left)
	}
	had := b.d.sessionID() != 0
	limit := time.NewTimer(closeTimeout)
	defer limit.Stop()
	if had {
		// The client gives a session back only while it is connected.
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout*3/4)
		b.d.awaitConnection(ctx)
		cancel()
	}
	b.conn.Close() // waits a second for the answer
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range b.owned { // until the client has ended
		}
		b.background.Wait()
	}()
	select {
	case <-ended:
	case <-limit.C:
	}
	b.d.shut()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
	if had && !b.d.confirmed() {
		return b.notGivenBack()
	}
	return nil
}

func (b *Backend) notGivenBack() error {
	return backend.Unavailable(b.info.Service, fmt.Errorf("the session was not given back and ends within %v", b.info.Expiry))
}

// leave removes the entries from the session of a connection that goes on.
func (b *Backend) leave(left []*lease) error {
	var all sync.WaitGroup
	for _, l := range left {
		all.Go(func() {
			if l.created() {
				_ = b.conn.Delete(l.path(), -1)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		all.Wait()
		b.background.Wait()
	}()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return b.notGivenBack()
	}
}

// spawn runs f in a goroutine that Close waits for. It answers false, without
// running f, on a closed Backend.
func (b *Backend) spawn(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.background.Go(f)
	return true
}

func newGUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func parent(path string) string { return path[:strings.LastIndexByte(path, '/')] }
