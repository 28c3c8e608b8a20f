package testenv

import "fmt"

// config is what the options set. It is printed to compare shared clusters, so
// it holds plain values only.
type config struct {
	nodes    int
	tls      bool
	auth     bool
	user     string
	password string
	tokenTTL int
	fsync    bool
	args     []string
}

// Option changes how [Etcd] and [SharedEtcd] set up a cluster.
type Option func(*config)

// Nodes sets how many nodes the cluster has: 1, which is the default, or 3.
func Nodes(n int) Option { return func(c *config) { c.nodes = n } }

// TLS has clients connect over TLS only and requires a certificate of them. See
// [Cluster.TLSConfig] and [Cluster.TLSFiles] for what a client needs.
func TLS() Option { return func(c *config) { c.tls = true } }

// Auth enables authentication with simple tokens, which end after they were not
// used for tokenTTL seconds. The user may read and write every key; if it is not
// root, a root user with the same password exists as well, as etcd demands.
// The password must contain no white space, which etcdctl cannot read.
func Auth(user, password string, tokenTTL int) Option {
	return func(c *config) {
		c.auth, c.user, c.password, c.tokenTTL = true, user, password, tokenTTL
	}
}

// Fsync has etcd flush its data to the disk as in production. The tests do
// without by default: they never lose the machine, only processes.
func Fsync() Option { return func(c *config) { c.fsync = true } }

// ExtraArgs appends command line arguments for every etcd node, such as
// --quota-backend-bytes=1048576.
func ExtraArgs(args ...string) Option {
	return func(c *config) { c.args = append(c.args, args...) }
}

func newConfig(opts []Option) (config, error) {
	c := config{nodes: 1}
	for _, opt := range opts {
		opt(&c)
	}
	if c.nodes != 1 && c.nodes != 3 {
		return c, fmt.Errorf("testenv: Nodes(%d): a cluster has 1 or 3 nodes", c.nodes)
	}
	return c, nil
}
