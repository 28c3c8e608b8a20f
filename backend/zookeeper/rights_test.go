package zookeeper_test

import (
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/testenv"
)

// A user with rights for one path needs none at the root, and keeps its rights
// over new connections and new sessions. Others do not get in.
func TestRights(t *testing.T) {
	z := testenv.NewZooKeeper(t, 1)
	admin := raw(t, z)
	if err := admin.AddAuth("digest", []byte("admin:secret")); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Create("/own", nil, 0, zk.DigestACL(zk.PermAll, "alice", "pa:ss/word")); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.SetACL("/", append(zk.DigestACL(zk.PermAll, "admin", "secret"), zk.WorldACL(zk.PermRead)...), -1); err != nil {
		t.Fatal(err)
	}
	alice := raw(t, z)
	if err := alice.AddAuth("digest", []byte("alice:pa:ss/word")); err != nil {
		t.Fatal(err)
	}
	proxy := testenv.NewProxy(t, "tcp", z.Endpoints()[0])
	b, err := tryOpen(testContext(t), "zk://alice:pa%3Ass%2Fword@"+proxy.Addr()+"/own/a/b?session=1s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	p := newPlace(backend.Mutex)
	release(t, acquire(t, b, p, exclusive))
	proxy.Cut()
	proxy.Heal()
	release(t, acquire(t, b, p, exclusive)) // on a new connection
	l := acquire(t, b, p, exclusive)
	proxy.Cut()
	ended(t, l, patience)
	awaitEmpty(t, alice, "/own/a/b/locks/"+p.Name) // the session has expired
	proxy.Heal()
	release(t, acquire(t, b, p, exclusive)) // in a new session

	for _, url := range []string{
		"zk://" + hosts(z) + "/own/a/b",
		"zk://mallory:guess@" + hosts(z) + "/own/a/b",
		"zk://" + hosts(z) + "/elsewhere",
	} {
		other, err := tryOpen(testContext(t), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = other.Close() })
		_, err = other.Acquire(testContext(t), p, exclusive)
		if err == nil || !strings.Contains(err.Error(), "no permission") || strings.Contains(err.Error(), "guess") {
			t.Errorf("Acquire through %s: %v; want a missing permission, and no secret", strings.Replace(url, "guess", "…", 1), err)
		}
	}
}

func TestURL(t *testing.T) {
	for url, want := range map[string]string{
		"zk:///base":                        "no host",
		"zk://h/zookeeper":                  "kept by ZooKeeper",
		"zk://h/a/../b":                     "refuses",
		"zk://user@h/a":                     "without a password",
		"zk://h/a?acl=creator":              "needs a user",
		"zk://h/a?acl=all":                  "creator or world",
		"zk://h/a?layout=java":              "curator or kazoo",
		"zk://h/a?log=stdout":               "none or slog",
		"zk://h/a?session=10ms":             "session",
		"zks://h/a?cert=x":                  "go together",
		"zk://h/a?ca=x":                     "ca",
		"zookeeper://h1,h2:1,[::1]:2/a?x=1": "x",
	} {
		if _, err := backend.Parse(url); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): %v; want an error with %q", url, err, want)
		}
	}
	for _, url := range []string{"zk://h", "zookeeper://h1:1,h2,[::1]:3/a//b/?session=4s", "zks://a:b@h/?acl=world&layout=kazoo&log=slog"} {
		if _, err := backend.Parse(url); err != nil {
			t.Errorf("Parse(%q): %v", url, err)
		}
	}
}
