//go:build linux || darwin

package socket

import (
	"fmt"
	"time"
)

// A silence is how a server has not answered. A server that is stopped keeps
// its flock, so nobody takes over, and all holds are as safe as before; but
// those who wait for an answer should hear of it, and not for ever wait.
type silence struct {
	link  link
	heard uint64
	ticks int
}

// listen runs a few times within patience while calls wait, and asks the
// server whether it is there. It does not run where nobody waits.
func (b *Backend) listen() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.calls) == 0 || b.closed {
		b.watching = false
		b.silence = silence{}
		return
	}
	b.watchdog.Reset(patience / 4)
	s := &b.silence
	if heard := b.heard.Load(); heard != s.heard || b.link != s.link {
		*s = silence{link: b.link, heard: heard}
	}
	w, remote := b.link.(*wire)
	if !remote {
		return // nobody is there, and run is looking; or it is this process
	}
	if s.ticks++; s.ticks > 4 {
		b.giveUpLocked(time.Now().Add(-patience), fmt.Errorf("%s does not answer: is it stopped?", b.peer))
	}
	w.request(&request{op: opPing})
}
