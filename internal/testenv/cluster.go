package testenv

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// startTimeout bounds every wait for a server. It only shows in a failing test,
// so it leaves room for a machine that runs several test packages at once.
const startTimeout = 60 * time.Second

// Cluster is a running etcd cluster, seen by one test.
type Cluster struct {
	tb Reporter
	s  *servers
}

// servers is the cluster itself, which a shared one outlives its tests with.
type servers struct {
	cfg    config
	bins   Binaries
	dir    string
	files  TLSFiles
	http   *http.Client
	shared bool
	ctx    context.Context // ends with the cluster
	cancel context.CancelFunc

	mu    sync.Mutex // guards the state of the nodes
	nodes []*node
}

// Etcd starts an etcd cluster for this test alone, waits until it serves, and
// ends it with the test. The end of the servers' logs is printed when the test
// has failed.
func Etcd(tb Reporter, opts ...Option) *Cluster {
	tb.Helper()
	cfg, err := newConfig(opts)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	// The directory comes first, so that its removal comes after the end of
	// the servers that write to it.
	dir := tb.TempDir()
	s, err := startServers(dir, cfg)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	c := &Cluster{tb: tb, s: s}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("%s", c.Log())
		}
		if err := s.close(); err != nil {
			tb.Logf("testenv: %v", err)
		}
	})
	return c
}

// errPortTaken tells that another process took a port after it was chosen.
var errPortTaken = errors.New("a chosen port was taken by another process")

func startServers(dir string, cfg config) (*servers, error) {
	bins, err := Build()
	if err != nil {
		return nil, err
	}
	s := &servers{cfg: cfg, bins: bins, dir: dir}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if cfg.tls {
		if s.files, err = writeTLS(filepath.Join(dir, "tls")); err != nil {
			return nil, err
		}
	}
	if s.http, err = s.newHTTPClient(); err != nil {
		return nil, err
	}
	const tries = 5
	for try := range tries {
		err = s.startNodes(filepath.Join(dir, fmt.Sprintf("try%d", try)))
		if err == nil && cfg.auth {
			err = s.enableAuth()
		}
		if err == nil {
			return s, nil
		}
		err = errors.Join(err, s.killNodes())
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	err = fmt.Errorf("testenv: start etcd: %w\n%s", err, s.log())
	s.cancel()
	return nil, err
}

func (s *servers) startNodes(dir string) error {
	ports, err := freePorts(2 * s.cfg.nodes)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes = nil
	for i := range s.cfg.nodes {
		n := &node{name: fmt.Sprintf("node%d", i), clientPort: ports[2*i], peerPort: ports[2*i+1]}
		n.dir = filepath.Join(dir, n.name)
		n.logPath = filepath.Join(dir, n.name+".log")
		s.nodes = append(s.nodes, n)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	for _, n := range s.nodes {
		if err := s.startNode(n); err != nil {
			return err
		}
	}
	for _, n := range s.nodes {
		if err := s.awaitHealth(n); err != nil {
			return err
		}
	}
	return nil
}

func (s *servers) killNodes() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, n := range s.nodes {
		errs = append(errs, n.kill())
	}
	return errors.Join(errs...)
}

// close ends the servers and the commands that CtlCmd made.
func (s *servers) close() error {
	s.cancel()
	return s.killNodes()
}

// Size is the number of nodes, whether they run or not.
func (c *Cluster) Size() int { return len(c.s.nodes) }

// Endpoints are the client addresses of all nodes as host:port.
func (c *Cluster) Endpoints() []string {
	endpoints := make([]string, 0, len(c.s.nodes))
	for _, n := range c.s.nodes {
		endpoints = append(endpoints, loopback(n.clientPort))
	}
	return endpoints
}

// URLs are the client addresses of all nodes with their scheme.
func (c *Cluster) URLs() []string {
	urls := make([]string, 0, len(c.s.nodes))
	for _, n := range c.s.nodes {
		urls = append(urls, c.s.clientURL(n))
	}
	return urls
}

// User is the name given with [Auth].
func (c *Cluster) User() string { return c.s.cfg.user }

// Password is the password given with [Auth].
func (c *Cluster) Password() string { return c.s.cfg.password }

// Log returns the end of every node's log. It is printed by itself when the
// test fails.
func (c *Cluster) Log() string { return c.s.log() }

func (s *servers) log() string {
	var b strings.Builder
	for _, n := range s.nodes {
		fmt.Fprintf(&b, "--- end of the log of etcd %s (%s)\n%s\n", n.name, loopback(n.clientPort), n.logTail())
	}
	return b.String()
}
