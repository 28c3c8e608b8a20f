//go:build unix

package zookeeper_test

import (
	"testing"
	"time"

	"github.com/gocoord/coord/internal/drivertest"
	"github.com/gocoord/coord/internal/testenv"
)

func TestStoppedProcess(t *testing.T) {
	z := hosts(testenv.SharedZooKeeper(t, 1))
	drivertest.StoppedProcess(t, open(t, z, ""), "zk://"+z+"/test?session=2s")
}

func TestKilledProcess(t *testing.T) {
	z := hosts(testenv.SharedZooKeeper(t, 1))
	drivertest.KilledProcess(t, open(t, z, ""), "zk://"+z+"/test?session=2s", 4*time.Second)
}
