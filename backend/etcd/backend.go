// Package etcd runs coord on an etcd v3 cluster.
//
// Every Backend has one lease, its session, and every claim is one key that
// is attached to it:
//
//	<prefix>/<directory of the kind>/<escaped name>/<lease>-<number>
//
// Claims are in order of their create revisions, which are their tokens, too.
// That is the layout of etcd's own concurrency package, so that "etcdctl lock
// <prefix>/locks/<escaped name>" and concurrency.NewMutex on the same prefix
// contend with a Mutex of this package, both ways round. A key of such a client
// counts as an Exclusive claim. A key without a lease never goes away by
// itself, so it is no claim and is ignored; clients of the concurrency package
// do wait for it.
//
// # URLs
//
// etcd://host:port,host:port/prefix names a cluster, and etcds:// one that
// speaks TLS. The port is 2379 and the prefix /coord if not given. A user and
// password stand before the hosts. Parameters: ttl, dial_timeout, and with TLS
// ca, cert, key and server_name.
//
// # Time
//
// A session lives for its ttl after the last renewal that etcd answered. The
// backend ends its leases a tenth of that (and at least 100 ms) earlier,
// counted from when that renewal was sent, so that a holder is told before
// anybody else is admitted even where clocks run at slightly different rates.
// etcd itself expires a lease up to a second late. When its leader changes it
// starts the leases' clocks anew: a crashed client's entries then take up to
// Info.Expiry longer.
//
// # Rights
//
// Where etcd has authentication switched on, the user needs a role with the
// readwrite permission for all keys that begin with "<prefix>/".
package etcd

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/remote"
)

const (
	defaultTTL = 10 * time.Second
	lowestTTL  = time.Second
	highestTTL = time.Hour

	// late is how long after a lease's ttl etcd may take to remove its keys.
	late = 2 * time.Second

	// inFlight is how many requests a client has on their way at a time. More
	// of them would not be answered sooner, and renewals wait among them.
	inFlight = 32

	// closeTimeout bounds Close where the service does not answer.
	closeTimeout = 2 * time.Second
)

// A Backend is one client of an etcd cluster. It implements backend.Backend.
type Backend struct {
	client *clientv3.Client
	owned  func() // closes the client; nil where the caller does
	root   string
	info   backend.Info
	ttl    time.Duration // as asked for
	nonce  string

	// ctx ends with Close. Background work runs under it.
	ctx    context.Context
	cancel context.CancelCauseFunc

	room   chan struct{} // holds an element per request on its way
	born   time.Time
	heard  atomic.Int64 // when etcd last answered, in nanoseconds after born
	stream atomic.Int64 // which watch stream is in use

	loads   *remote.Reads[*clientv3.GetResponse]
	rosters *remote.Reads[seen]
	doubts  remote.Doubts

	closeOnce sync.Once
	closeErr  error

	mu         sync.Mutex
	background sync.WaitGroup // guarded by mu as far as Add goes
	closed     bool
	session    *session
	opening    chan struct{}     // not nil while a session is being opened
	claims     map[string]*lease // by key, as long as the key may exist
	seq        uint64
}

var _ backend.Backend = (*Backend)(nil)

// An Option changes what New makes.
type Option func(*config)

type config struct {
	prefix string
	ttl    time.Duration
	owned  func()
}

// WithPrefix sets the prefix of all keys. The default is "/coord".
func WithPrefix(prefix string) Option { return func(c *config) { c.prefix = prefix } }

// WithTTL sets for how long a session outlives its client. It is rounded up to
// whole seconds, and etcd raises it where it is less than one and a half of its
// election timeouts: by default, to two seconds. The default is 10s.
func WithTTL(d time.Duration) Option { return func(c *config) { c.ttl = d } }

// New makes a Backend on a client that is ready for use. It opens the session,
// so that a service that cannot be reached, a password or a missing right is
// reported here. The client remains the caller's: Close does not close it. For
// it to notice a network that swallows everything, its Config should have
// DialKeepAliveTime and DialKeepAliveTimeout set.
func New(ctx context.Context, client *clientv3.Client, opts ...Option) (*Backend, error) {
	cfg := config{ttl: defaultTTL}
	for _, o := range opts {
		o(&cfg)
	}
	root, err := cleanPrefix(cfg.prefix)
	if err != nil {
		return nil, err
	}
	if cfg.ttl < lowestTTL || cfg.ttl > highestTTL {
		return nil, fmt.Errorf("%w: ttl %v, want %v to %v", backend.ErrInvalid, cfg.ttl, lowestTTL, highestTTL)
	}
	b := &Backend{
		client: client,
		root:   root,
		ttl:    (cfg.ttl + time.Second - 1).Truncate(time.Second),
		room:   make(chan struct{}, inFlight),
		born:   time.Now(),
		nonce:  newNonce(),
		claims: make(map[string]*lease),
	}
	b.info = backend.Info{
		Name:    "etcd",
		Service: remote.Service(client.Endpoints(), root),
		Scope:   backend.Network,
		FIFO:    true,
		Fencing: true,
		Durable: true,
		Expiry:  b.ttl + late,
	}
	b.ctx, b.cancel = context.WithCancelCause(context.Background())
	b.loads, b.rosters = remote.NewReads[*clientv3.GetResponse](b.ctx, b.spawn), remote.NewReads[seen](b.ctx, b.spawn)
	s, err := b.grant(ctx)
	if err != nil {
		b.cancel(remote.Ended(backend.ErrClosed))
		return nil, err
	}
	b.info.Expiry = s.ttl + late
	b.owned = cfg.owned
	b.session = s
	s.start()
	return b, nil
}

// Info says what this backend promises. Expiry is the ttl that etcd granted and
// the two seconds that it may take to remove what has expired.
func (b *Backend) Info() backend.Info { return b.info }

// Close releases every lease and gives the session back, which removes all its
// entries in one step. It takes two seconds at most. When etcd did not confirm
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
	b.mu.Unlock()
	if s != nil {
		s.end(backend.ErrReleased)
	}
	b.cancel(remote.Ended(backend.ErrClosed))
	var err error
	if s != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		err = s.revoke(ctx)
		cancel()
	}
	b.background.Wait()
	if b.owned != nil {
		b.owned()
	}
	return err
}

// spawn runs f in a goroutine that Close waits for. It answers false, without
// running f, on a closed Backend.
func (b *Backend) spawn(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spawnLocked(f)
}

func (b *Backend) spawnLocked(f func()) bool {
	if b.closed {
		return false
	}
	b.background.Go(f)
	return true
}

func newNonce() string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
