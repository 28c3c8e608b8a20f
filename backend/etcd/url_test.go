package etcd_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gocoord/coord/backend"
)

func TestParse(t *testing.T) {
	for _, url := range []string{
		"etcd://h", "etcd://h1:2379,h2,[::1]:2379,[::1]/a/b", "etcd://h/a//b/?ttl=1s&dial_timeout=1s",
		"etcd://user:pass@h", "etcds://h?ca=/none&server_name=x", "etcds://h?cert=/none&key=/none",
	} {
		if _, err := backend.Parse(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{
		"etcd://", "etcd:///prefix", "etcd://h/a/../b", "etcd://h/./b", "etcd://h/a%00b", "etcd://h?ttl=10",
		"etcd://h?ttl=1ms", "etcd://h?tll=1s", "etcd://S3cr3t@h", "etcd://:S3cr3t@h", "etcd://h?ca=/x",
		"etcds://h?cert=/x", "etcds://h?key=/x", "etcd://u:S3cr3t@h:x", "etcd://u:S3cr3t@h?password=S3cr3t",
		"etcd://u:S3cr3t@h?ttl=S3cr3t",
	} {
		_, err := backend.Parse(url)
		if !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%s: %v", url, err)
		}
		if s := fmt.Sprintf("%+v", err); strings.Contains(s, "S3c") || strings.Contains(s, "r3t") {
			t.Errorf("%s: secret in %s", url, s)
		}
	}
	_, err := tryOpen(testContext(t), "etcds://h?ca=/does/not/exist")
	wantErr(t, err, backend.ErrInvalid)
	for _, scheme := range []string{"etcd", "etcds"} {
		d, _ := backend.Lookup(scheme)
		if _, err := backend.Parse(d.Example); err != nil {
			t.Error(err)
		}
	}
}
