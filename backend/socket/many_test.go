//go:build linux || darwin

package socket

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/gocoord/coord/backend"
)

// TestManyWaiters has ten thousand claims wait on one server, over one
// connection, and says what each costs on both sides together.
func TestManyWaiters(t *testing.T) {
	n := 10000
	if testing.Short() {
		n = 1000
	}
	_, server, client := pair(t)
	first := acquired(t, server, "a")
	before := memoryInUse()
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		last uint64
	)
	for range n {
		wg.Go(func() {
			l, err := client.Acquire(context.Background(), mutex("a"), exclusive)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			if l.Token() <= last {
				t.Errorf("token %d after %d", l.Token(), last)
			}
			last = l.Token()
			mu.Unlock()
			if err := l.Release(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	inLine(t, server, "a", n+1)
	t.Logf("a waiter takes %d bytes, of its client and the server together", (memoryInUse()-before)/uint64(n))
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	inLine(t, server, "a", 0)
}

func memoryInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// TestStoreRepeated: a Store whose answer was lost finds its own effect.
func TestStoreRepeated(t *testing.T) {
	_, server, _ := pair(t)
	host := server.server.Load().host
	place := backend.Place{Kind: backend.Latch, Name: "l"}
	by := author{7, 7}
	v, err := host.Store(t.Context(), by, place, []byte("x"), "0")
	if err != nil {
		t.Fatal(err)
	}
	again, err := host.Store(t.Context(), by, place, []byte("x"), "0")
	if err != nil || again != v {
		t.Errorf("the repeat: %q, %v; want %q", again, err, v)
	}
}
