package zookeeper

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/remote"
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
	tls         *remote.TLS // nil: none
}

func parse(u *backend.URL, secure bool) (backend.Opener, error) {
	t := target{
		user: u.User,
		session: u.Query.Duration("session", defaultTimeout, lowestTimeout, highestTimeout,
			"for how long a session outlives its client; the servers bound it to 2 to 20 of their ticks"),
		dialTimeout: u.Query.Duration("dial_timeout", 5*time.Second, 100*time.Millisecond, time.Hour,
			"how long opening may take before the service counts as unavailable"),
	}
	t.layout = Layout(u.Query.OneOf("layout", []string{string(Curator), string(Kazoo)}, "whose names the entries get; go-zookeeper has Curator's"))
	t.log = u.Query.OneOf("log", []string{"none", "slog"}, "whether the client's messages go to the default logger of log/slog") == "slog"
	acl := u.Query.String("acl", "", "who may use what is created: `creator`, or `world` for everybody; creator if a user is given, else world")
	var badTLS error
	if secure {
		t.tls, badTLS = remote.NewTLS(u.Query)
	}
	errs := []error{remote.CheckUser(t.user), badTLS}
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
	if t.user != nil && strings.Contains(t.user.Name, ":") {
		fail("a user with a colon in its name, which digest authentication cannot have")
	}
	switch {
	case acl == "creator" && t.user == nil:
		fail("acl=creator needs a user: put user:password@ before the hosts")
	case acl == "creator", acl == "" && t.user != nil:
		t.acl = zk.AuthACL(zk.PermAll)
	case acl == "world", acl == "":
		t.acl = zk.WorldACL(zk.PermAll)
	default:
		fail("parameter acl: want creator or world")
	}
	for _, h := range u.Hosts {
		t.servers = append(t.servers, remote.WithPort(h, defaultPort))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return t.open, nil
}

// open connects, and returns once there is a session.
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
		err = backend.Unavailable(strings.Join(t.servers, ","), fmt.Errorf("no session within dial_timeout=%v", t.dialTimeout))
	}
	return nil, err
}

func (t target) connect(ctx context.Context) (*Backend, error) {
	var security *tls.Config
	if t.tls != nil {
		var err error
		if security, err = t.tls.Load(); err != nil {
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

// logger has the client's messages go to log/slog, or nowhere.
type logger struct{ on bool }

func (l logger) Printf(format string, args ...any) {
	if l.on {
		slog.Debug("zookeeper: " + fmt.Sprintf(format, args...))
	}
}
