package zookeeper

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocoord/coord/backend"
)

const defaultPort = "2181"

func init() {
	register := func(scheme, short string, secure bool, doc, example string) {
		for _, s := range []string{scheme, short} {
			d := backend.Driver{
				Form:    s + "://[user:password@]host:port,…/base",
				Example: s + example,
				Doc:     doc,
				Parse:   func(u *backend.URL) (backend.Opener, error) { return parse(u, secure) },
			}
			if s == short {
				d.Doc = "Short for " + scheme + "."
			}
			backend.Register(s, d)
		}
	}
	register("zookeeper", "zk", false, "A ZooKeeper ensemble.", "://127.0.0.1:2181/coord")
	register("zookeepers", "zks", true, "A ZooKeeper ensemble, through TLS.", "://zk.example.com:2281/coord?ca=/etc/ssl/zk-ca.pem")
}

// target is what a URL says.
type target struct {
	servers     []string
	user        *backend.User
	base        string
	layout      Layout
	acl         []zk.ACL
	session     time.Duration
	dialTimeout time.Duration
	log         bool
	tls         *files // nil: none
}

// files names what TLS needs.
type files struct{ ca, cert, key, serverName string }

func parse(u *backend.URL, secure bool) (backend.Opener, error) {
	t := target{
		user: u.User,
		session: u.Query.Duration("session", defaultTimeout, lowestTimeout, highestTimeout,
			"for how long a session outlives its client; the servers bound it to 2 to 20 of their ticks"),
		dialTimeout: u.Query.Duration("dial_timeout", 5*time.Second, 100*time.Millisecond, time.Hour,
			"how long opening may take before the service counts as unavailable"),
	}
	layout := u.Query.String("layout", string(Curator), "whose names the entries get: `curator`, which go-zookeeper has as well, or `kazoo`")
	acl := u.Query.String("acl", "", "who may use what is created: `creator`, or `world` for everybody; creator if a user is given, else world")
	logs := u.Query.String("log", "none", "`slog` has the client's messages go to the default logger of log/slog")
	if secure {
		t.tls = &files{
			ca:         u.Query.String("ca", "", "file with the PEM certificates of the authorities that sign the servers'; the system's if not given"),
			cert:       u.Query.String("cert", "", "file with this client's PEM certificate"),
			key:        u.Query.String("key", "", "file with the PEM key of that certificate"),
			serverName: u.Query.String("server_name", "", "the name that the servers' certificates must have, if it is not that in the URL"),
		}
	}
	var errs []error
	fail := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{backend.ErrInvalid}, args...)...))
	}
	var err error
	if t.base, err = cleanBase(u.Path); err != nil {
		errs = append(errs, err)
	}
	if len(u.Hosts) == 0 {
		fail("no host, as in zookeeper://127.0.0.1:%s", defaultPort)
	}
	if t.user != nil && (t.user.Name == "" || t.user.Password == "") {
		fail("a user without a password, or a password without a user: give both, or neither")
	}
	if t.user != nil && strings.Contains(t.user.Name, ":") {
		fail("a user with a colon in its name, which digest authentication cannot have")
	}
	if t.tls != nil && (t.tls.cert == "") != (t.tls.key == "") {
		fail("cert and key go together")
	}
	switch t.layout = Layout(layout); t.layout {
	case Curator, Kazoo:
	default:
		fail("layout %q, want %s or %s", layout, Curator, Kazoo)
	}
	switch {
	case acl == "creator" && t.user == nil:
		fail("acl=creator needs a user: put user:password@ before the hosts")
	case acl == "creator", acl == "" && t.user != nil:
		t.acl = zk.AuthACL(zk.PermAll)
	case acl == "world", acl == "":
		t.acl = zk.WorldACL(zk.PermAll)
	default:
		fail("acl %q, want creator or world", acl)
	}
	switch logs {
	case "none":
	case "slog":
		t.log = true
	default:
		fail("log %q, want none or slog", logs)
	}
	for _, h := range u.Hosts {
		if !strings.Contains(h, ":") || strings.HasSuffix(h, "]") {
			h += ":" + defaultPort
		}
		t.servers = append(t.servers, h)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return t.open, nil
}

// open connects, and returns once there is a session.
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
		err = backend.Unavailable(strings.Join(t.servers, ","), fmt.Errorf("no session within dial_timeout=%v", t.dialTimeout))
	}
	return nil, err
}

func (t target) connect(ctx context.Context) (*Backend, error) {
	var security *tls.Config
	if t.tls != nil {
		var err error
		if security, err = t.tls.load(); err != nil {
			return nil, err
		}
	}
	d := NewDialer(security)
	conn, events, err := zk.Connect(t.servers, t.session,
		zk.WithDialer(d.Dial), zk.WithHostProvider(&hosts{d: d}), zk.WithLogger(logger{t.log}), zk.WithLogInfo(false))
	if err != nil {
		return nil, fmt.Errorf("zookeeper: %w", err)
	}
	b, err := New(ctx, conn, d, WithBase(t.base), WithLayout(t.layout), WithACL(t.acl), func(c *config) {
		c.owned, c.asked, c.servers = events, t.session, t.servers
	})
	if err == nil {
		if t.user == nil {
			return b, nil
		}
		_, err = do(ctx, b, "/", func() (struct{}, error) {
			return struct{}{}, conn.AddAuth("digest", []byte(t.user.Name+":"+t.user.Password))
		})
		if err == nil {
			return b, nil
		}
		_ = b.Close()
		return nil, err
	}
	d.shut()
	conn.Close()
	for range events { // until the client has ended
	}
	return nil, err
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

// logger has the client's messages go to log/slog, or nowhere.
type logger struct{ on bool }

func (l logger) Printf(format string, args ...any) {
	if l.on {
		slog.Debug("zookeeper: " + fmt.Sprintf(format, args...))
	}
}
