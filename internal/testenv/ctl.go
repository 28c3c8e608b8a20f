package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Ctl runs etcdctl against the cluster with its certificates and as its root
// user, and returns what it printed. The error has what it printed to its error
// output. Flags such as --endpoints or --user take the place of what would be
// set otherwise. It may be called from any goroutine.
func (c *Cluster) Ctl(args ...string) (string, error) { return c.s.ctl(c.s.env(), "", args...) }

// CtlCmd prepares an etcdctl command that runs for longer, such as
//
//	etcdctl lock NAME
//
// for the caller to start and to wait for. The command is killed when the
// cluster ends, if it still runs then. To run it as another user without the
// password on the command line, append ETCDCTL_USER and ETCDCTL_PASSWORD to its
// Env.
func (c *Cluster) CtlCmd(args ...string) *exec.Cmd { return c.s.ctlCmd(c.s.ctx, c.s.env(), args...) }

func (s *servers) ctlCmd(ctx context.Context, env []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.bins.Etcdctl, args...)
	cmd.Env = lessFlags(env, args)
	cmd.WaitDelay = 5 * time.Second
	endWithParent(cmd)
	return cmd
}

func (s *servers) ctl(env []string, stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(s.ctx, startTimeout)
	defer cancel()
	cmd := s.ctlCmd(ctx, env, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	p, err := startProcess(cmd)
	if err == nil {
		<-p.ended.Done()
		err = p.err
	}
	if err != nil {
		err = fmt.Errorf("etcdctl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), err
}

// lessFlags takes the variables out of env that flags in args stand for, since
// etcdctl refuses to be told twice.
func lessFlags(env, args []string) []string {
	for _, arg := range args {
		if arg == "--" {
			break
		}
		flag, ok := strings.CutPrefix(arg, "--")
		if !ok {
			continue
		}
		flag, _, _ = strings.Cut(flag, "=")
		variable := "ETCDCTL_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_")) + "="
		env = slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, variable) })
	}
	return env
}

// env tells etcdctl where the cluster is and who asks. The password goes this
// way since every process of the machine can read a command line.
func (s *servers) env() []string {
	env := s.anonymousEnv()
	if s.cfg.auth {
		env = append(env, "ETCDCTL_USER=root", "ETCDCTL_PASSWORD="+s.cfg.password)
	}
	return env
}

func (s *servers) anonymousEnv() []string {
	urls := make([]string, 0, len(s.nodes))
	for _, n := range s.nodes {
		urls = append(urls, s.clientURL(n))
	}
	env := append(envWithout("ETCDCTL_"), "ETCDCTL_ENDPOINTS="+strings.Join(urls, ","))
	if s.cfg.tls {
		env = append(env, "ETCDCTL_CACERT="+s.files.CA, "ETCDCTL_CERT="+s.files.ClientCert, "ETCDCTL_KEY="+s.files.ClientKey)
	}
	return env
}

// enableAuth makes the users and turns authentication on. It is called before
// any client has the cluster's address.
func (s *servers) enableAuth() error {
	if s.cfg.user == "" || s.cfg.password == "" || s.cfg.tokenTTL <= 0 {
		return errors.New("Auth needs a user, a password and a token lifetime of at least a second")
	}
	if strings.ContainsAny(s.cfg.password, " \t\r\n") {
		return errors.New("Auth: etcdctl cannot read a password with white space: choose another")
	}
	env := s.anonymousEnv()
	steps := [][]string{
		{"user", "add", "root", "--interactive=false"},
		{"user", "grant-role", "root", "root"},
	}
	if s.cfg.user != "root" {
		steps = append(steps,
			[]string{"user", "add", s.cfg.user, "--interactive=false"},
			[]string{"role", "add", "everything"},
			[]string{"role", "grant-permission", "everything", "readwrite", "--prefix", ""},
			[]string{"user", "grant-role", s.cfg.user, "everything"})
	}
	steps = append(steps, []string{"auth", "enable"})
	for _, step := range steps {
		// Only the steps that ask for a password read it.
		if _, err := s.ctl(env, s.cfg.password+"\n", step...); err != nil {
			return err
		}
	}
	return nil
}

// MoveLeader makes node i the leader and waits until it is.
func (c *Cluster) MoveLeader(i int) {
	c.tb.Helper()
	leader := c.Leader()
	if leader == i {
		return
	}
	c.s.mu.Lock()
	c.running("MoveLeader", i)
	c.s.mu.Unlock()
	id, err := c.memberID(i)
	if err == nil {
		// Only the leader takes this request.
		_, err = c.s.ctl(c.s.env(), "", "--endpoints", c.URLs()[leader], "move-leader", id)
	}
	if err != nil {
		c.tb.Fatalf("testenv: MoveLeader(%d): %v", i, err)
	}
	deadline := time.Now().Add(startTimeout)
	for c.Leader() != i {
		if time.Now().After(deadline) {
			c.tb.Fatalf("testenv: MoveLeader(%d): it did not become the leader within %v", i, startTimeout)
		}
	}
}

// memberID asks node i for its number within etcd, in hexadecimal.
func (c *Cluster) memberID(i int) (string, error) {
	out, err := c.s.ctl(c.s.env(), "", "--endpoints", c.URLs()[i], "endpoint", "status", "--write-out=simple")
	if err != nil {
		return "", err
	}
	fields := strings.Split(out, ", ")
	if len(fields) < 2 {
		return "", fmt.Errorf("etcdctl endpoint status printed %q", out)
	}
	return fields[1], nil
}
