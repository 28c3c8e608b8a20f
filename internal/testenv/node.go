package testenv

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// node is one etcd server. Its data and ports stay when its process ends.
type node struct {
	daemon
	name       string
	dir        string
	clientPort int
	peerPort   int
}

// pollEvery is how often a server is asked whether it is ready. etcd has no
// way to say so by itself.
const pollEvery = 10 * time.Millisecond

func (s *servers) clientURL(n *node) string {
	if s.cfg.tls {
		return "https://" + loopback(n.clientPort)
	}
	return "http://" + loopback(n.clientPort)
}

func (n *node) peerURL() string { return "http://" + loopback(n.peerPort) }

// startNode starts the node's process; the caller holds s.mu.
func (s *servers) startNode(n *node) error {
	cmd := exec.CommandContext(s.ctx, s.bins.Etcd, s.nodeArgs(n)...)
	cmd.Dir = s.dir
	cmd.Env = envWithout("ETCD_")
	return n.start(cmd)
}

func (s *servers) nodeArgs(n *node) []string {
	initial := make([]string, 0, len(s.nodes))
	for _, m := range s.nodes {
		initial = append(initial, m.name+"="+m.peerURL())
	}
	args := []string{
		"--name", n.name,
		"--data-dir", n.dir,
		"--listen-client-urls", s.clientURL(n),
		"--advertise-client-urls", s.clientURL(n),
		"--listen-peer-urls", n.peerURL(),
		"--initial-advertise-peer-urls", n.peerURL(),
		"--initial-cluster", strings.Join(initial, ","),
		// Clusters of different tests must never take each other for
		// themselves, whatever port one of them comes back on.
		"--initial-cluster-token", "coord-testenv-" + strconv.Itoa(s.nodes[0].peerPort),
	}
	if !s.cfg.fsync {
		args = append(args, "--unsafe-no-fsync")
	}
	if s.cfg.tls {
		args = append(args, "--cert-file", s.files.ServerCert, "--key-file", s.files.ServerKey,
			"--trusted-ca-file", s.files.CA, "--client-cert-auth")
	}
	if s.cfg.auth {
		// The lowest cost of bcrypt keeps its work out of what tests measure.
		args = append(args, "--auth-token", "simple", "--auth-token-ttl", strconv.Itoa(s.cfg.tokenTTL), "--bcrypt-cost", "4")
	}
	return append(args, s.cfg.args...)
}

// awaitHealth waits until the node answers a linearizable read, which takes a
// leader and a majority. An alarm about space does not count, since a test may
// have caused it.
func (s *servers) awaitHealth(n *node) error {
	ctx, cancel := context.WithTimeout(s.ctx, startTimeout)
	defer cancel()
	// Who took the port may never answer, so a request ends with the process.
	stop := context.AfterFunc(n.proc.ended, cancel)
	defer stop()
	for {
		err := s.healthy(ctx, n)
		if err == nil {
			return nil
		}
		select {
		case <-n.proc.ended.Done():
			if bytes.Contains(n.logOfProcess(), []byte("address already in use")) {
				return fmt.Errorf("%s: %w", n.name, errPortTaken)
			}
			return fmt.Errorf("%s ended before it served: %w", n.name, n.proc.err)
		case <-ctx.Done():
			if n.proc.ended.Err() != nil {
				continue // so that the other case says why
			}
			return fmt.Errorf("%s was not healthy within %v: %w", n.name, startTimeout, err)
		case <-time.After(pollEvery):
		}
	}
}

func (s *servers) healthy(ctx context.Context, n *node) error {
	if _, err := s.get(ctx, n, "/health?exclude=NOSPACE"); err != nil {
		return err
	}
	// Where ports are taken by chance the answer may be that of another test's
	// etcd. The directory of the data is this node's alone.
	body, err := s.get(ctx, n, "/debug/vars")
	if err != nil {
		return err
	}
	var vars struct {
		Cmdline []string `json:"cmdline"`
	}
	if err := json.Unmarshal(body, &vars); err != nil {
		return fmt.Errorf("%s/debug/vars: %w", n.name, err)
	}
	if !slices.Contains(vars.Cmdline, n.dir) {
		return fmt.Errorf("%s: another server answers on its port", n.name)
	}
	return nil
}

// get asks the node's HTTP side, which is apart from the requests that the
// clients under test make and needs no password.
func (s *servers) get(ctx context.Context, n *node, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.clientURL(n)+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s%s: %s: %s", n.name, path, resp.Status, bytes.TrimSpace(body))
	}
	return body, nil
}

func (s *servers) newHTTPClient() (*http.Client, error) {
	// Without kept connections no goroutine is left between two requests.
	transport := &http.Transport{DisableKeepAlives: true}
	if s.cfg.tls {
		conf, err := s.files.clientConfig()
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = conf
	}
	return &http.Client{Transport: transport}, nil
}

// envWithout is the environment less the variables that would configure a
// server or a command behind the test's back.
func envWithout(prefix string) []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, prefix) {
			env = append(env, kv)
		}
	}
	return env
}
