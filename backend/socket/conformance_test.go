//go:build linux || darwin

package socket

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/conformance"
)

// paths gives all clients of one test one path.
type paths struct {
	mu sync.Mutex
	of map[testing.TB]string
}

func (p *paths) path(tb testing.TB) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = make(map[testing.TB]string)
	}
	if p.of[tb] == "" {
		p.of[tb] = filepath.Join(tb.TempDir(), "s")
	}
	return p.of[tb]
}

func harness() conformance.Harness {
	var p paths
	return conformance.Harness{
		Open: func(tb testing.TB) backend.Backend {
			b, err := Open(tb.Context(), p.path(tb))
			if err != nil {
				tb.Fatal(err)
			}
			return b
		},
		Expect: backend.Info{Name: "socket", Scope: backend.Host, FIFO: true, Fencing: true, Durable: true},
		Crash: func(tb testing.TB, b backend.Backend) {
			s, ok := b.(*Backend)
			if !ok {
				tb.Fatalf("a backend of type %T", b)
			}
			s.crash()
		},
	}
}

// TestConformance has no Sever: processes of one host cannot be cut off from
// one another. What comes closest is tested here: connections that break,
// servers that die, and processes that are stopped.
func TestConformance(t *testing.T) { conformance.Run(t, harness()) }
