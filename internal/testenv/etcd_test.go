package testenv

import (
	"bufio"
	"crypto/tls"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

// mustCtl runs etcdctl and fails the test if it fails.
func mustCtl(t *testing.T, c *Cluster, args ...string) string {
	t.Helper()
	out, err := c.Ctl(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// health asks a server for its health as any client could.
func health(t *testing.T, url string, conf *tls.Config) error {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: conf}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/health", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}

func TestSingleNode(t *testing.T) {
	t.Parallel()
	c := Etcd(t)
	if n := len(c.Endpoints()); n != 1 || c.Size() != 1 {
		t.Fatalf("%d endpoints and size %d, want 1", n, c.Size())
	}
	mustCtl(t, c, "put", "greeting", "hello")
	if out := mustCtl(t, c, "get", "greeting", "--print-value-only"); out != "hello\n" {
		t.Errorf("got %q", out)
	}
	if _, err := c.Ctl("get"); err == nil || !strings.Contains(err.Error(), "get command needs") {
		t.Errorf("a wrong command's error does not say what etcdctl printed: %v", err)
	}
	if leader := c.Leader(); leader != 0 {
		t.Errorf("leader %d", leader)
	}
	if !strings.Contains(c.Log(), "ready to serve client requests") {
		t.Errorf("the log lacks what etcd logs at its start:\n%s", c.Log())
	}
	c.Kill(0)
	c.Kill(0) // once more does nothing
	c.Restart(0)
	if out := mustCtl(t, c, "get", "greeting", "--print-value-only"); out != "hello\n" {
		t.Errorf("got %q after the restart", out)
	}
}

func TestThreeNodesSurviveTheirLeader(t *testing.T) {
	t.Parallel()
	c := Etcd(t, Nodes(3))
	first := c.Leader()
	mustCtl(t, c, "put", "term", "one")
	c.Kill(first)
	second := c.Leader()
	if second == first {
		t.Fatalf("node %d leads, but it was killed", first)
	}
	mustCtl(t, c, "put", "term", "two")
	c.Restart(first)
	// The node that missed the write answers by itself.
	out := mustCtl(t, c, "get", "term", "--print-value-only", "--endpoints", c.URLs()[first])
	if out != "two\n" {
		t.Errorf("the restarted node answers %q", out)
	}
	c.MoveLeader(first)
	if leader := c.Leader(); leader != first {
		t.Errorf("node %d leads, want %d", leader, first)
	}
}

func TestRestartOfAMajority(t *testing.T) {
	t.Parallel()
	c := Etcd(t, Nodes(3))
	mustCtl(t, c, "put", "k", "v")
	for i := range 3 {
		c.Kill(i)
	}
	c.Restart(0) // returns although no majority runs
	c.Restart(1)
	out := mustCtl(t, c, "get", "k", "--print-value-only", "--endpoints", c.URLs()[1])
	if out != "v\n" {
		t.Errorf("got %q", out)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	c := Etcd(t, TLS())
	mustCtl(t, c, "put", "k", "v")

	if err := health(t, c.URLs()[0], c.TLSConfig()); err != nil {
		t.Error(err)
	}
	without := c.TLSConfig()
	without.Certificates = nil
	if err := health(t, c.URLs()[0], without); err == nil {
		t.Error("a client without a certificate was served")
	}
	if conf := SharedEtcd(t).TLSConfig(); conf != nil {
		t.Error("a cluster without TLS has a TLS configuration")
	}
}

func TestAuthWithOddPassword(t *testing.T) {
	t.Parallel()
	const password = `p#%@/:?&"'\ü`
	for _, user := range []string{"root", "worker"} {
		for _, overTLS := range []bool{false, true} {
			opts := []Option{Auth(user, password, 2)}
			name := user
			if overTLS {
				opts = append(opts, TLS())
				name += " over TLS"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := Etcd(t, opts...)
				if c.User() != user || c.Password() != password {
					t.Errorf("user %q with password %q", c.User(), c.Password())
				}
				mustCtl(t, c, "put", "by-root", "1")
				as := func(password string, args ...string) (string, error) {
					return c.s.ctl(append(c.s.anonymousEnv(), "ETCDCTL_USER="+user, "ETCDCTL_PASSWORD="+password), "", args...)
				}
				if _, err := as(password, "put", "by-user", "2"); err != nil {
					t.Error(err)
				}
				if out, err := as(password, "get", "by-root", "--print-value-only"); err != nil || out != "1\n" {
					t.Errorf("got %q, %v", out, err)
				}
				if _, err := as("wrong", "get", "by-root"); err == nil {
					t.Error("a wrong password was accepted")
				}
				if _, err := c.s.ctl(c.s.anonymousEnv(), "", "get", "by-root"); err == nil {
					t.Error("a client without a password was served")
				}
				c.Restart(0)
				mustCtl(t, c, "get", "by-user")
			})
		}
	}
}

func TestExtraArgsLimitSpace(t *testing.T) {
	t.Parallel()
	c := Etcd(t, ExtraArgs("--quota-backend-bytes=65536"))
	value := strings.Repeat("x", 16<<10)
	var err error
	for range 20 {
		if _, err = c.Ctl("put", "k", value); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "database space exceeded") {
		t.Errorf("no quota took effect: %v", err)
	}
	c.Restart(0) // an alarm does not keep it from being taken as healthy
}

func TestCtlCmdHoldsALock(t *testing.T) {
	t.Parallel()
	c := Etcd(t)
	cmd := c.CtlCmd("lock", "name")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// It prints its key once it holds the lock.
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "name/") {
		t.Fatalf("etcdctl lock printed %q, %v", line, err)
	}
	if out := mustCtl(t, c, "get", "--prefix", "name/", "--keys-only"); !strings.Contains(out, strings.TrimSpace(line)) {
		t.Errorf("the lock's key is not there: %q", out)
	}
	if err := c.s.close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the command ended by itself, not with the cluster")
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]Option{nil, {TLS(), Auth("worker", "secret", 60)}} {
		c := Etcd(t, opts...)
		got := c.RequestsDuring(t, func() {
			mustCtl(t, c, "put", "k", "v")
			mustCtl(t, c, "get", "k")
			mustCtl(t, c, "get", "k")
		})
		if got["Put"] != 1 || got["Range"] != 2 || got["Txn"] != 0 {
			t.Errorf("counted %v", got)
		}
		if len(opts) > 0 && got["Authenticate"] != 3 {
			t.Errorf("counted %v, want one Authenticate for each client", got)
		}
		if n := c.Requests(t)["Put"]; n != 1 {
			t.Errorf("%d puts since the start", n)
		}
		if got := c.RequestsDuring(t, func() {}); len(got) != 0 {
			t.Errorf("counting counts itself: %v", got)
		}
	}
}

func TestSharedEtcd(t *testing.T) {
	t.Parallel()
	a, b := SharedEtcd(t), SharedEtcd(t)
	if a.s != b.s {
		t.Error("two clusters for the same options")
	}
	mustCtl(t, a, "put", "shared", "1")
	if out := mustCtl(t, b, "get", "shared", "--print-value-only"); out != "1\n" {
		t.Errorf("got %q", out)
	}
}

func TestMessagesOnStreamsAreCounted(t *testing.T) {
	t.Parallel()
	c := Etcd(t)
	lease := strings.Fields(mustCtl(t, c, "lease", "grant", "60"))[1]
	for want := 1; want <= 3; want++ {
		mustCtl(t, c, "lease", "keep-alive", "--once", lease)
		// The server learns of the end of the stream after the client did.
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(pollEvery) {
			got := c.Requests(t)["LeaseKeepAlive"]
			if got == want {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("counted %d messages, want %d", got, want)
			}
		}
	}
}
