//go:build linux || darwin

package socket

import "sync"

// A loopback is the link of a client that serves itself, for what it began as
// a client of an earlier server.
type loopback struct {
	b        *Backend
	session  *session
	greeting chan []uint64
	loop     sync.WaitGroup

	mu     sync.Mutex
	queue  []*request
	wake   chan struct{}
	closed bool
}

func newLoopback(b *Backend, s *session) *loopback {
	l := &loopback{b: b, session: s, greeting: make(chan []uint64, 1), wake: make(chan struct{}, 1)}
	l.loop.Go(l.run)
	return l
}

func (l *loopback) request(q *request) {
	own := *q
	l.mu.Lock()
	l.queue = append(l.queue, &own)
	l.mu.Unlock()
	l.poke()
}

func (l *loopback) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *loopback) reply(r *reply) {
	if r.number == 0 {
		l.greeting <- r.held
		return
	}
	l.b.dispatch(r)
}

func (l *loopback) run() {
	for range l.wake {
		for {
			l.mu.Lock()
			if l.closed {
				l.mu.Unlock()
				return
			}
			if len(l.queue) == 0 {
				l.mu.Unlock()
				break
			}
			q := l.queue[0]
			l.queue = l.queue[1:]
			l.mu.Unlock()
			l.session.handle(l, q)
		}
	}
}

func (l *loopback) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.poke()
	l.loop.Wait()
}
