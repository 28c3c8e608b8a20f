package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/remote"
)

const defaultPort = "2379"

func init() {
	backend.Register("etcd", backend.Driver{
		Form:    "etcd://[user:password@]host:port,…/prefix",
		Example: "etcd://127.0.0.1:2379/coord",
		Doc:     "An etcd v3 cluster.",
		Parse:   func(u *backend.URL) (backend.Opener, error) { return parse(u, false) },
	})
	backend.Register("etcds", backend.Driver{
		Form:    "etcds://[user:password@]host:port,…/prefix",
		Example: "etcds://etcd.example.com:2379/coord?ca=/etc/ssl/etcd-ca.pem",
		Doc:     "An etcd v3 cluster, through TLS.",
		Parse:   func(u *backend.URL) (backend.Opener, error) { return parse(u, true) },
	})
}

// target is what a URL says.
type target struct {
	endpoints   []string
	user        *backend.User
	prefix      string
	ttl         time.Duration
	dialTimeout time.Duration
	tls         *remote.TLS // nil: none
}

func parse(u *backend.URL, secure bool) (backend.Opener, error) {
	t := target{
		user: u.User,
		ttl: u.Query.Duration("ttl", defaultTTL, lowestTTL, highestTTL,
			"for how long a session outlives its client, in whole seconds; etcd raises what is too short for it"),
		dialTimeout: u.Query.Duration("dial_timeout", 5*time.Second, 100*time.Millisecond, time.Hour,
			"how long opening may take before the service counts as unavailable"),
	}
	var badTLS, badPath, badHosts error
	if secure {
		t.tls, badTLS = remote.NewTLS(u.Query)
	}
	t.prefix, badPath = cleanPrefix(u.Path)
	if len(u.Hosts) == 0 {
		badHosts = fmt.Errorf("%w: no host, as in etcd://127.0.0.1:%s", backend.ErrInvalid, defaultPort)
	}
	for _, h := range u.Hosts {
		t.endpoints = append(t.endpoints, endpoint(h, secure))
	}
	if err := errors.Join(badPath, badHosts, remote.CheckUser(t.user), badTLS); err != nil {
		return nil, err
	}
	return t.open, nil
}

func endpoint(host string, secure bool) string {
	host = remote.WithPort(host, defaultPort)
	if secure {
		return "https://" + host
	}
	return "http://" + host
}

// open connects, and returns once the service has answered.
func (t target) open(ctx context.Context) (backend.Backend, error) {
	if err := remote.Why(ctx); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, t.dialTimeout)
	defer cancel()
	b, err := t.connect(limited)
	if err == nil {
		return b, nil
	}
	if limited.Err() != nil && remote.Why(ctx) == nil {
		err = backend.Unavailable(strings.Join(t.endpoints, ","), fmt.Errorf("no answer within dial_timeout=%v", t.dialTimeout))
	}
	return nil, err
}

func (t target) connect(ctx context.Context) (*Backend, error) {
	cfg, err := t.config()
	if err != nil {
		return nil, err
	}
	// The client checks the password when it is made and has no context for
	// that but the one it lives in.
	life, end := context.WithCancel(context.Background())
	cfg.Context = life
	stop := context.AfterFunc(ctx, end)
	client, err := clientv3.New(*cfg)
	if err != nil {
		stop()
		end()
		if ended := remote.Why(ctx); ended != nil {
			return nil, ended
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = noAnswer{t.dialTimeout}
		}
		if temporary(err) {
			return nil, backend.Unavailable(strings.Join(t.endpoints, ","), err)
		}
		return nil, (&Backend{root: t.prefix}).explain(err)
	}
	owned := func() {
		_ = client.Close()
		end()
	}
	if !stop() {
		owned()
		return nil, remote.Why(ctx)
	}
	b, err := New(ctx, client, WithPrefix(t.prefix), WithTTL(t.ttl), func(c *config) { c.owned = owned })
	if err != nil {
		owned()
		return nil, err
	}
	return b, nil
}

func (t target) config() (*clientv3.Config, error) {
	cfg := &clientv3.Config{
		Endpoints:          t.endpoints,
		DialTimeout:        t.dialTimeout,
		MaxCallRecvMsgSize: math.MaxInt32, // a line may be long
		Logger:             zap.NewNop(),
		// A network that swallows everything is noticed within these. Pings
		// without a request in progress would make the server hang up.
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: min(max(t.ttl/4, time.Second), 5*time.Second),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			// The defaults wait for up to two minutes between two attempts.
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: min(t.ttl/10, time.Second)},
			MinConnectTimeout: min(max(t.ttl/4, time.Second), 5*time.Second),
		})},
	}
	if t.user != nil {
		cfg.Username, cfg.Password = t.user.Name, t.user.Password
	}
	if t.tls == nil {
		return cfg, nil
	}
	var err error
	cfg.TLS, err = t.tls.Load()
	return cfg, err
}
