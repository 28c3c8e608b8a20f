package fence_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/gocoord/coord/fence"
)

func TestGate(t *testing.T) {
	g := fence.New(5)
	for _, step := range []struct {
		token uint64
		stale bool
	}{{0, true}, {4, true}, {5, false}, {5, false}, {9, false}, {8, true}, {9, false}} {
		if err := g.Admit(step.token); errors.Is(err, fence.ErrStale) != step.stale {
			t.Errorf("Admit(%d) after %d: %v, want stale %t", step.token, g.Newest(), err, step.stale)
		}
	}
	if g.Newest() != 9 {
		t.Errorf("Newest = %d, want 9", g.Newest())
	}
	wrote := false
	if err := g.Do(8, func() error { wrote = true; return nil }); !errors.Is(err, fence.ErrStale) || wrote {
		t.Errorf("a late write: %v, written %t", err, wrote)
	}
}

// TestGateKeepsOrder lets writers race: what is written never goes back.
func TestGateKeepsOrder(t *testing.T) {
	var (
		g    fence.Gate
		wg   sync.WaitGroup
		last uint64
	)
	for token := range uint64(100) {
		wg.Go(func() {
			_ = g.Do(token+1, func() error {
				if token+1 < last {
					t.Errorf("%d was written after %d", token+1, last)
				}
				last = token + 1
				return nil
			})
		})
	}
	wg.Wait()
	if last != 100 {
		t.Errorf("the last write is %d, want 100", last)
	}
}
