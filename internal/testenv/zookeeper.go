package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// zooClassPath is where Debian's packages put the server and a logger for it.
const zooClassPath = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar"

// zooTick is the ZooKeeper servers' tickTime. It is short, so that sessions can
// be: they expire on a multiple of it.
const zooTick = 200 * time.Millisecond

// ZooKeeper is a running ensemble, seen by one test.
type ZooKeeper struct {
	tb Reporter
	s  *zooServers
}

type zooServers struct {
	size   int
	dir    string
	shared bool
	ctx    context.Context // ends with the ensemble
	cancel context.CancelFunc

	mu    sync.Mutex // guards the state of the nodes
	nodes []*zooNode
}

// zooNode is one server. Its data and ports stay when its process ends.
type zooNode struct {
	daemon
	dir   string
	ports [3]int // of clients, of peers, of elections
}

// NewZooKeeper starts an ensemble of 1 or 3 ZooKeeper servers for this test
// alone, waits until it serves, and ends it with the test. The end of the
// servers' logs is printed when the test has failed.
func NewZooKeeper(tb Reporter, nodes int) *ZooKeeper {
	tb.Helper()
	// The directory comes first, so that its removal comes after the end of
	// the servers that write to it.
	dir := tb.TempDir()
	s, err := startZooKeeper(dir, nodes)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	z := &ZooKeeper{tb: tb, s: s}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("%s", s.log())
		}
		if err := s.close(); err != nil {
			tb.Logf("testenv: %v", err)
		}
	})
	return z
}

func startZooKeeper(dir string, size int) (*zooServers, error) {
	if size != 1 && size != 3 {
		return nil, fmt.Errorf("testenv: ZooKeeper with %d nodes: an ensemble has 1 or 3", size)
	}
	if _, err := os.Stat(strings.SplitN(zooClassPath, ":", 2)[0]); err != nil {
		return nil, fmt.Errorf("testenv: no ZooKeeper server: run scripts/setup: %w", err)
	}
	s := &zooServers{size: size, dir: dir}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	var err error
	for try := range 5 {
		if err = s.startNodes(filepath.Join(dir, fmt.Sprintf("try%d", try))); err == nil {
			return s, nil
		}
		err = errors.Join(err, s.killNodes())
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	err = fmt.Errorf("testenv: start ZooKeeper: %w\n%s", err, s.log())
	s.cancel()
	return nil, err
}

func (s *zooServers) startNodes(dir string) error {
	ports, err := freePorts(3 * s.size)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes = nil
	for i := range s.size {
		name := filepath.Join(dir, fmt.Sprintf("node%d", i))
		s.nodes = append(s.nodes, &zooNode{daemon: daemon{logPath: name + ".log"}, dir: name, ports: [3]int(ports[3*i : 3*i+3])})
	}
	for i, n := range s.nodes {
		if err := s.configure(i, n); err != nil {
			return err
		}
		if err := s.startNode(n); err != nil {
			return err
		}
	}
	for _, n := range s.nodes {
		if err := s.awaitServing(n); err != nil {
			return err
		}
	}
	return nil
}

// configure writes a node's configuration.
func (s *zooServers) configure(i int, n *zooNode) error {
	if err := os.MkdirAll(filepath.Join(n.dir, "data"), 0o750); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "tickTime=%d\ninitLimit=100\nsyncLimit=25\n", zooTick.Milliseconds())
	fmt.Fprintf(&b, "dataDir=%s\n", filepath.Join(n.dir, "data"))
	fmt.Fprintf(&b, "clientPort=%d\nclientPortAddress=127.0.0.1\n", n.ports[0])
	b.WriteString("4lw.commands.whitelist=*\nadmin.enableServer=false\nmaxClientCnxns=0\n")
	fmt.Fprintf(&b, "minSessionTimeout=%d\nmaxSessionTimeout=60000\n", 2*zooTick.Milliseconds())
	if s.size > 1 {
		for j, m := range s.nodes {
			fmt.Fprintf(&b, "server.%d=127.0.0.1:%d:%d\n", j+1, m.ports[1], m.ports[2])
		}
		id := fmt.Sprintf("%d\n", i+1)
		if err := os.WriteFile(filepath.Join(n.dir, "data", "myid"), []byte(id), 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(n.dir, "zoo.cfg"), []byte(b.String()), 0o600)
}

// startNode starts the node's process; the caller holds s.mu.
func (s *zooServers) startNode(n *zooNode) error {
	cmd := exec.CommandContext(s.ctx, "java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		// The tests never lose the machine, only processes.
		"-Dzookeeper.forceSync=no",
		// Empty containers go soon, and not once a minute.
		"-Dznode.container.checkIntervalMs=500",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-cp", zooClassPath,
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(n.dir, "zoo.cfg"))
	cmd.Dir = n.dir
	cmd.Env = envWithout("JVMFLAGS")
	return n.start(cmd)
}

// awaitServing waits until the node takes part in an ensemble that has a leader.
func (s *zooServers) awaitServing(n *zooNode) error {
	ctx, cancel := context.WithTimeout(s.ctx, startTimeout)
	defer cancel()
	for {
		mode, err := n.mode(ctx)
		if err == nil && mode != "" {
			return nil
		}
		select {
		case <-n.proc.ended.Done():
			if bytes.Contains(n.logOfProcess(), []byte("Address already in use")) {
				return errPortTaken
			}
			return fmt.Errorf("a server ended before it served: %w", n.proc.err)
		case <-ctx.Done():
			return fmt.Errorf("a server did not serve within %v: %w", startTimeout, err)
		case <-time.After(pollEvery):
		}
	}
}

// mode is "standalone", "leader" or "follower", or empty while the node does
// not serve.
func (n *zooNode) mode(ctx context.Context) (string, error) {
	answer, err := fourLetters(ctx, loopback(n.ports[0]), "srvr")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(answer) {
		if mode, ok := strings.CutPrefix(line, "Mode: "); ok {
			return strings.TrimSpace(mode), nil
		}
	}
	return "", nil
}

// fourLetters asks a server one of its four letter words.
func fourLetters(ctx context.Context, addr, word string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

func (s *zooServers) killNodes() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, n := range s.nodes {
		errs = append(errs, n.kill())
	}
	return errors.Join(errs...)
}

func (s *zooServers) close() error {
	s.cancel()
	return s.killNodes()
}

func (s *zooServers) log() string {
	var b strings.Builder
	for _, n := range s.nodes {
		fmt.Fprintf(&b, "--- end of the log of ZooKeeper at %s\n%s\n", loopback(n.ports[0]), n.logTail())
	}
	return b.String()
}

// Size is the number of nodes, whether they run or not.
func (z *ZooKeeper) Size() int { return z.s.size }

// Endpoints are the client addresses of all nodes as host:port.
func (z *ZooKeeper) Endpoints() []string {
	var endpoints []string
	for _, n := range z.s.nodes {
		endpoints = append(endpoints, loopback(n.ports[0]))
	}
	return endpoints
}

// Ask sends node i a four letter word, such as mntr or wchs, and returns the
// answer.
func (z *ZooKeeper) Ask(i int, word string) string {
	z.tb.Helper()
	answer, err := fourLetters(z.s.ctx, z.Endpoints()[i], word)
	if err != nil {
		z.tb.Fatalf("testenv: %s of node %d: %v", word, i, err)
	}
	return answer
}

// Leader waits until a running node leads the others and returns its number.
func (z *ZooKeeper) Leader() int {
	z.tb.Helper()
	deadline := time.Now().Add(startTimeout)
	for time.Now().Before(deadline) {
		z.s.mu.Lock()
		for i, n := range z.s.nodes {
			if n.proc == nil || n.suspended {
				continue
			}
			if mode, err := n.mode(z.s.ctx); err == nil && (mode == "leader" || mode == "standalone") {
				z.s.mu.Unlock()
				return i
			}
		}
		z.s.mu.Unlock()
		time.Sleep(pollEvery)
	}
	z.tb.Fatalf("testenv: no leader within %v", startTimeout)
	return -1
}

// alone returns node i for a method that changes its state; the caller holds
// s.mu.
func (z *ZooKeeper) alone(method string, i int) *zooNode {
	z.tb.Helper()
	if z.s.shared {
		z.tb.Fatalf("testenv: %s(%d): other tests use this shared ensemble too: start one with NewZooKeeper", method, i)
	}
	return z.s.nodes[i]
}

// Kill ends node i at once (SIGKILL) and waits until its process is gone. Its
// data stay for Restart.
func (z *ZooKeeper) Kill(i int) {
	z.tb.Helper()
	z.s.mu.Lock()
	defer z.s.mu.Unlock()
	if err := z.alone("Kill", i).kill(); err != nil {
		z.tb.Fatalf("testenv: Kill(%d): %v", i, err)
	}
}

// Stop suspends node i (SIGSTOP): its connections stay open and it answers
// nothing. Cont lets it go on.
func (z *ZooKeeper) Stop(i int) {
	z.tb.Helper()
	z.s.mu.Lock()
	defer z.s.mu.Unlock()
	if err := z.alone("Stop", i).suspend(); err != nil {
		z.tb.Fatalf("testenv: Stop(%d): %v", i, err)
	}
}

// Cont lets node i go on after Stop.
func (z *ZooKeeper) Cont(i int) {
	z.tb.Helper()
	z.s.mu.Lock()
	defer z.s.mu.Unlock()
	if err := z.alone("Cont", i).resume(); err != nil {
		z.tb.Fatalf("testenv: Cont(%d): %v", i, err)
	}
}

// Restart starts node i again with its data on its ports, killing it first if
// it runs, and waits until it serves. So a majority has to run.
func (z *ZooKeeper) Restart(i int) {
	z.tb.Helper()
	z.s.mu.Lock()
	defer z.s.mu.Unlock()
	n := z.alone("Restart", i)
	err := n.kill()
	if err == nil {
		err = z.s.startNode(n)
	}
	if err == nil {
		err = z.s.awaitServing(n)
	}
	if err != nil {
		z.tb.Fatalf("testenv: Restart(%d): %v", i, err)
	}
}
