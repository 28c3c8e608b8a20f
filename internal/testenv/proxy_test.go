package testenv

import (
	"bytes"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestProxyPassesEverything(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *echo, p *Proxy) {
		c := dial(t, p)
		c.send("hello")
		c.receive("hello")
		want := Stats{Connections: 1, Open: 1, RequestBytes: 5, RequestChunks: 1, ReplyBytes: 5, ReplyChunks: 1}
		p.Await("the reply to be counted", func(s Stats) bool { return s == want })

		// A lot at once, and the end of the requests before the replies.
		big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		go func() {
			_, _ = c.Write(big) // a failure shows in what is read
			_ = c.Conn.(interface{ CloseWrite() error }).CloseWrite()
		}()
		c.within(30 * time.Second)
		got, err := io.ReadAll(c)
		if err != nil || !bytes.Equal(got, big) {
			t.Errorf("read %d bytes, %v, want the %d that were sent", len(got), err, len(big))
		}
		p.Await("the connection to end", func(s Stats) bool { return s.Open == 0 })
	})
}

func TestProxyTellsThatTheServerIsAway(t *testing.T) {
	p := NewProxy(t, "unix", filepath.Join(t.TempDir(), "nobody"))
	dial(t, p).lost()
}

func TestProxyCut(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *echo, p *Proxy) {
		c := dial(t, p)
		c.send("a")
		c.receive("a")
		for range 3 {
			p.Cut()
			p.Cut() // once more does nothing
			c.lost()
			if conn, err := connect(t, p); err == nil {
				_ = conn.Close()
				t.Fatal("a new connection was accepted after Cut")
			}
			p.Heal()
			c = dial(t, p)
			c.send("b")
			c.receive("b")
		}
	})
}

func TestProxyMute(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *echo, p *Proxy) {
		c := dial(t, p)
		c.send("a")
		c.receive("a")
		p.Mute()
		before := p.Stats()
		c.send("withheld")
		p.Await("the request to be withheld", func(s Stats) bool { return s.WithheldRequestBytes == 8 })
		late := dial(t, p)
		late.send("late")
		late.silent()
		c.silent()
		if s := p.Stats(); s.RequestBytes != before.RequestBytes || s.ReplyBytes != before.ReplyBytes {
			t.Errorf("passed something on while muted: %+v, before %+v", s, before)
		}
		p.Heal()
		c.receive("withheld")
		late.receive("late")
	})
}

func TestProxyMuteIsNotHeldUpByAServerThatHangs(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	p := NewProxy(t, "tcp", l.Addr().String())
	c := dial(t, p)
	server, err := l.Accept() // and never reads
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	const size = 12 << 20 // more than the buffers of the connection hold
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { _, _ = c.Write(bytes.Repeat([]byte("x"), size)) })
	p.Await("the request to get stuck", func(s Stats) bool { return s.RequestBytes+s.WithheldRequestBytes == size })
	p.Mute()
	before := p.Stats()
	var got int64
	buf := make([]byte, 1<<20)
	for got < int64(before.RequestBytes) {
		n, err := server.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		got += int64(n)
	}
	if s := p.Stats(); s != before {
		t.Errorf("passed something on while muted: %+v, before %+v", s, before)
	}
	p.Heal()
	for got < size {
		n, err := server.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		got += int64(n)
	}
	p.Await("all to be counted", func(s Stats) bool { return s.RequestBytes == size && s.WithheldRequestBytes == 0 })
}

func TestProxyMuteReplies(t *testing.T) {
	onBoth(t, func(t *testing.T, e *echo, p *Proxy) {
		c := dial(t, p)
		p.MuteReplies()
		c.send("first")
		e.awaitGot(t, "first")
		p.Await("the reply to be withheld", func(s Stats) bool { return s.WithheldReplyBytes == 5 })
		c.silent()
		late := dial(t, p)
		late.send("second")
		e.awaitGot(t, "second")
		p.Heal()
		c.receive("first")
		late.receive("second")
		c.send("third")
		c.receive("third")
	})
}

func TestProxyHealDropping(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *echo, p *Proxy) {
		asked, idle := dial(t, p), dial(t, p)
		for _, c := range []*client{asked, idle} {
			c.send("a")
			c.receive("a")
		}
		p.MuteReplies()
		asked.send("lost")
		p.Await("the reply to be withheld", func(s Stats) bool { return s.WithheldReplyBytes == 4 })
		p.HealDropping()
		asked.lost()
		idle.send("b")
		idle.receive("b")
	})
}

func TestProxyDelay(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *echo, p *Proxy) {
		const delay = 50 * time.Millisecond
		c := dial(t, p)
		c.send("a")
		c.receive("a")
		p.Delay(delay)
		start := time.Now()
		const n = 40
		var sent strings.Builder
		for i := range n {
			sent.WriteByte(byte('A' + i))
			c.send(string(rune('A' + i)))
			p.Await("the chunk to be read", func(s Stats) bool { return s.RequestBytes+s.WithheldRequestBytes == 2+i })
		}
		c.receive(sent.String()) // in order
		took := time.Since(start)
		if took < 2*delay {
			t.Errorf("the replies took %v, want at least %v", took, 2*delay)
		}
		// One after another the chunks would take n times the delay.
		if took > n*delay/2 {
			t.Errorf("the replies took %v: the delays add up", took)
		}
		p.Heal()
		p.Await("nothing to be under way", func(s Stats) bool { return s.WithheldReplyBytes == 0 })
		start = time.Now()
		c.send("z")
		c.receive("z")
		if took := time.Since(start); took >= 2*delay {
			t.Errorf("still delayed after Heal: %v", took)
		}
	})
}

func TestProxyCutAfterRequest(t *testing.T) {
	onBoth(t, func(t *testing.T, e *echo, p *Proxy) {
		c, other := dial(t, p), dial(t, p)
		done := p.CutAfterRequest(func(b []byte) bool { return bytes.Contains(b, []byte("commit")) })
		c.send("begin")
		c.receive("begin")
		c.send("commit")
		c.lost()
		<-done
		e.awaitGot(t, "commit")
		// The server's reply came to nothing, and its side is still open.
		s := p.Await("the reply to be dropped", func(s Stats) bool { return s.DroppedReplyBytes == len("commit") && s.Connections == 2 })
		if s.Open != 2 {
			t.Errorf("%d connections, want 2: %+v", s.Open, s)
		}
		// It happens once and to one connection.
		other.send("commit")
		other.receive("commit")
		p.Heal()
		p.Await("the server's side to be closed", func(s Stats) bool { return s.Open == 1 })
	})
}

func TestProxyHealCallsOffCutAfterRequest(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *echo, p *Proxy) {
		p.CutAfterRequest(func([]byte) bool { return true })
		p.Heal()
		c := dial(t, p)
		c.send("a")
		c.receive("a")
	})
}

func TestProxyCloseWhileMuted(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *echo, p *Proxy) {
		c := dial(t, p)
		c.send("a")
		c.receive("a")
		p.Mute()
		dial(t, p)
		c.send("b")
		p.Await("the request to be withheld", func(s Stats) bool { return s.WithheldRequestBytes == 1 })
		p.Close()
		c.lost()
	})
}

func TestProxyUnderLoad(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *echo, p *Proxy) {
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					conn, err := connect(t, p)
					if err != nil {
						runtime.Gosched()
						continue
					}
					_ = conn.SetDeadline(time.Now().Add(time.Second))
					buf := make([]byte, 4)
					for range 10 {
						if _, err := conn.Write([]byte("ping")); err != nil {
							break
						}
						if _, err := io.ReadFull(conn, buf); err != nil {
							break
						}
						if string(buf) != "ping" {
							t.Errorf("received %q", buf)
						}
					}
					_ = conn.Close()
				}
			})
		}
		for range 20 {
			for _, fault := range []func(){p.Cut, p.Mute, p.MuteReplies, func() { p.Delay(time.Millisecond) }, func() {
				p.CutAfterRequest(func([]byte) bool { return true })
			}} {
				fault()
				p.Heal()
			}
			n := p.Stats().ReplyBytes
			p.Await("traffic to flow again", func(s Stats) bool { return s.ReplyBytes > n })
		}
		close(stop)
		wg.Wait()
	})
}
