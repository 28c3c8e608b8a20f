package minimal

import (
	"sync"
	"testing"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/conformance"
)

func TestConformance(t *testing.T) {
	var (
		mu       sync.Mutex
		services = map[string]*Service{}
	)
	conformance.Run(t, conformance.Harness{
		Open: func(tb testing.TB) backend.Backend {
			mu.Lock()
			defer mu.Unlock()
			if services[tb.Name()] == nil {
				services[tb.Name()] = NewService()
			}
			return services[tb.Name()].Client()
		},
		Expect:  backend.Info{Name: "minimal", Scope: backend.Process, FIFO: true, Fencing: true},
		Virtual: true,
	})
}
