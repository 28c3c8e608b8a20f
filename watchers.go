package coord

import "sync"

// watchers owns the goroutines that follow holds for the observer and the log.
// It is a WaitGroup that may be added to while somebody waits for it.
type watchers struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// watch runs f on a goroutine that Close waits for. After Close every hold has
// ended, so that f returns at once.
func (c *Client) watch(f func()) {
	w := &c.watchers
	w.mu.Lock()
	closed := w.closed
	if !closed {
		w.wg.Add(1)
	}
	w.mu.Unlock()
	if closed {
		f()
		return
	}
	go func() {
		defer w.wg.Done()
		f()
	}()
}

func (w *watchers) wait() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.wg.Wait()
}
