package conformance

import (
	"testing"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/backend/memory"
)

// onMemory is a harness of the memory backend: a space for each run of a check.
func onMemory() Harness {
	return Harness{
		Open:    func(tb testing.TB) backend.Backend { return memory.Open(tb.Name()) },
		Expect:  backend.Info{Name: "memory", Scope: backend.Process, FIFO: true, Fencing: true},
		Virtual: true,
	}
}

func TestMemory(t *testing.T) { Run(t, onMemory()) }

func TestMemoryInRealTime(t *testing.T) {
	h := onMemory()
	h.Virtual = false
	Run(t, h)
}
