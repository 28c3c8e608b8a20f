//go:build unix

package etcd_test

import (
	"testing"
	"time"

	"github.com/gocoord/coord/internal/drivertest"
	"github.com/gocoord/coord/internal/testenv"
)

func TestStoppedProcess(t *testing.T) {
	c := hosts(testenv.SharedEtcd(t))
	drivertest.StoppedProcess(t, open(t, c, ""), "etcd://"+c+"/test?ttl=2s")
}

func TestKilledProcess(t *testing.T) {
	c := hosts(testenv.SharedEtcd(t))
	drivertest.KilledProcess(t, open(t, c, ""), "etcd://"+c+"/test?ttl=2s", 4*time.Second)
}
