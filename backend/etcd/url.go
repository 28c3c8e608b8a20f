package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/gocoord/coord/backend"
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
	tls         *files // nil: none
}

// files names what TLS needs.
type files struct{ ca, cert, key, serverName string }

func parse(u *backend.URL, secure bool) (backend.Opener, error) {
	t := target{
		user: u.User,
		ttl: u.Query.Duration("ttl", defaultTTL, lowestTTL, highestTTL,
			"for how long a session outlives its client, in whole seconds; etcd raises what is too short for it"),
		dialTimeout: u.Query.Duration("dial_timeout", 5*time.Second, 100*time.Millisecond, time.Hour,
			"how long opening may take before the service counts as unavailable"),
	}
	if secure {
		t.tls = &files{
			ca:         u.Query.String("ca", "", "file with the PEM certificates of the authorities that sign the servers'; the system's if not given"),
			cert:       u.Query.String("cert", "", "file with this client's PEM certificate"),
			key:        u.Query.String("key", "", "file with the PEM key of that certificate"),
			serverName: u.Query.String("server_name", "", "the name that the servers' certificates must have, if it is not that in the URL"),
		}
	}
	var errs []error
	var err error
	if t.prefix, err = cleanPrefix(u.Path); err != nil {
		errs = append(errs, err)
	}
	if len(u.Hosts) == 0 {
		errs = append(errs, fmt.Errorf("%w: no host, as in etcd://127.0.0.1:%s", backend.ErrInvalid, defaultPort))
	}
	if t.user != nil && (t.user.Name == "" || t.user.Password == "") {
		errs = append(errs, fmt.Errorf("%w: a user without a password, or a password without a user: give both, or neither", backend.ErrInvalid))
	}
	if t.tls != nil && (t.tls.cert == "") != (t.tls.key == "") {
		errs = append(errs, fmt.Errorf("%w: cert and key go together", backend.ErrInvalid))
	}
	for _, h := range u.Hosts {
		t.endpoints = append(t.endpoints, endpoint(h, secure))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return t.open, nil
}

func endpoint(host string, secure bool) string {
	if !strings.Contains(host, ":") || strings.HasSuffix(host, "]") {
		host += ":" + defaultPort
	}
	if secure {
		return "https://" + host
	}
	return "http://" + host
}

// open connects, and returns once the service has answered.
func (t target) open(ctx context.Context) (backend.Backend, error) {
	if err := why(ctx); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, t.dialTimeout)
	defer cancel()
	b, err := t.connect(limited)
	if err == nil {
		return b, nil
	}
	if limited.Err() != nil && why(ctx) == nil {
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
		if ended := why(ctx); ended != nil {
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
		return nil, why(ctx)
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
	cfg.TLS, err = t.tls.load()
	return cfg, err
}

// load reads the files. Its errors name them and quote nothing of what is in them.
func (f files) load() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.serverName}
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("%w: parameter ca: %w", backend.ErrInvalid, err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%w: parameter ca: no PEM certificate in %s", backend.ErrInvalid, f.ca)
		}
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("%w: parameters cert and key: %w", backend.ErrInvalid, err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
