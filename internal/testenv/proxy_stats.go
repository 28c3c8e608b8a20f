package testenv

import "time"

// Stats counts what went through a proxy since it was started. A chunk is what
// was read at once.
type Stats struct {
	// Connections is how many connections of clients were accepted, and Open
	// how many of them the proxy still holds.
	Connections, Open int
	// Bytes and chunks that were passed on.
	RequestBytes, RequestChunks int
	ReplyBytes, ReplyChunks     int
	// Bytes that were read but are held back at the moment, by a mute or a
	// delay.
	WithheldRequestBytes, WithheldReplyBytes int
	// Bytes of replies that went nowhere after a CutAfterRequest.
	DroppedReplyBytes int
}

func (s *Stats) passed(dir direction, bytes int, whole bool) {
	chunks := 0
	if whole {
		chunks = 1
	}
	if dir == requests {
		s.RequestBytes += bytes
		s.RequestChunks += chunks
	} else {
		s.ReplyBytes += bytes
		s.ReplyChunks += chunks
	}
	s.withheld(dir, -bytes)
}

func (s *Stats) withheld(dir direction, bytes int) {
	if dir == requests {
		s.WithheldRequestBytes += bytes
	} else {
		s.WithheldReplyBytes += bytes
	}
}

// Stats returns the counts of this moment.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// Await waits until the counts fulfil the condition, such as that a request
// was passed on, and fails the test if they do not within ten seconds. It
// returns the counts that did.
func (p *Proxy) Await(what string, condition func(Stats) bool) Stats {
	p.tb.Helper()
	timeout := time.NewTimer(10 * time.Second)
	defer timeout.Stop()
	for {
		p.mu.Lock()
		stats, changed := p.stats, p.change()
		p.mu.Unlock()
		if condition(stats) {
			return stats
		}
		select {
		case <-changed:
		case <-timeout.C:
			p.tb.Fatalf("testenv: %v: waited in vain for %s: %+v", p, what, stats)
		}
	}
}

// change returns a channel that the next notify closes; p.mu is held.
func (p *Proxy) change() <-chan struct{} {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

// notify wakes those who wait for a change; p.mu is held.
func (p *Proxy) notify() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}
