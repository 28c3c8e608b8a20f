package testenv

import (
	"strings"
	"testing"
)

func TestZooKeeper(t *testing.T) {
	for _, size := range []int{1, 3} {
		z := NewZooKeeper(t, size)
		leader := z.Leader()
		if got := z.Ask(leader, "ruok"); got != "imok" {
			t.Fatalf("ruok of %d nodes: %q", size, got)
		}
		z.Stop(leader)
		z.Cont(leader)
		z.Kill(leader)
		if size == 3 && z.Leader() == leader {
			t.Fatal("a dead node leads")
		}
		z.Restart(leader)
		if got := z.Ask(leader, "srvr"); !strings.Contains(got, "Mode: ") {
			t.Fatalf("srvr after a restart: %q", got)
		}
	}
}
