//go:build linux || darwin

package socket

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

// What a lock costs, beside the least that two processes can do over a Unix
// socket, and beside the locks that the kernel has. One run of
//
//	go test -run '^$' -bench . ./backend/socket
//
// compares them all; only the ratios of one run mean anything.

const echoEnv = "COORD_SOCKET_ECHO"

// echo answers each byte with a byte, which is the least a server can do.
func echo(path string) {
	c, err := net.Dial("unix", path)
	if err != nil {
		os.Exit(1)
	}
	var b [1]byte
	for {
		if _, err := io.ReadFull(c, b[:]); err != nil {
			return
		}
		if _, err := c.Write(b[:]); err != nil {
			return
		}
	}
}

func BenchmarkPingPong(b *testing.B) {
	path := b.TempDir() + "/s"
	ln, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), echoEnv+"="+path)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer cmd.Wait()         //nolint:errcheck // it is killed
	defer cmd.Process.Kill() //nolint:errcheck // it may be gone
	c, err := ln.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	var buf [1]byte
	for b.Loop() {
		if _, err := c.Write(buf[:]); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, buf[:]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLock is an uncontended lock, of which another process is the
// server; the times of Acquire and Release are apart.
func BenchmarkLock(b *testing.B) {
	path := b.TempDir() + "/s"
	helping(b, path)
	c := opened(b, path)
	ctx, place := context.Background(), mutex("a")
	b.ReportAllocs()
	var acquiring time.Duration
	n := 0
	for b.Loop() {
		began := time.Now()
		l, err := c.Acquire(ctx, place, exclusive)
		if err != nil {
			b.Fatal(err)
		}
		acquiring += time.Since(began)
		n++
		if err := l.Release(ctx); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(acquiring.Nanoseconds())/float64(n), "ns/acquire")
	b.ReportMetric(float64((b.Elapsed()-acquiring).Nanoseconds())/float64(n), "ns/release")
}

// BenchmarkLockOfServer is the same in the process that serves.
func BenchmarkLockOfServer(b *testing.B) {
	c := serving(b, b.TempDir()+"/s")
	ctx, place := context.Background(), mutex("a")
	b.ReportAllocs()
	for b.Loop() {
		l, err := c.Acquire(ctx, place, exclusive)
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Release(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFlock(b *testing.B) {
	f, err := os.Create(b.TempDir() + "/f")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for b.Loop() {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			b.Fatal(err)
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_UN); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGofrsFlock(b *testing.B) {
	l := flock.New(b.TempDir() + "/f")
	for b.Loop() {
		if err := l.Lock(); err != nil {
			b.Fatal(err)
		}
		if err := l.Unlock(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHandOver is two processes that take turns; an op is one hand-over.
func BenchmarkHandOver(b *testing.B) {
	for _, third := range []bool{true, false} {
		name := "server=one-of-them"
		if third {
			name = "server=third"
		}
		b.Run(name, func(b *testing.B) {
			path := b.TempDir() + "/s"
			var c *Backend
			if third {
				helping(b, path)
				c = opened(b, path)
			}
			other := helping(b, path)
			if c == nil {
				c = opened(b, path)
			}
			takeTurns(b, func() {
				l, err := c.Acquire(context.Background(), mutex("a"), exclusive)
				if err != nil {
					b.Fatal(err)
				}
				if err := l.Release(context.Background()); err != nil {
					b.Fatal(err)
				}
			}, func() { other.ask("turning", "turns") }, other)
		})
	}
	b.Run("flock", func(b *testing.B) {
		path := b.TempDir() + "/s"
		other := helping(b, path)
		f, err := os.OpenFile(path+".witness", os.O_RDWR, 0)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		takeTurns(b, func() {
			if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
				b.Fatal(err)
			}
			if err := syscall.Flock(int(f.Fd()), syscall.LOCK_UN); err != nil {
				b.Fatal(err)
			}
		}, func() { other.ask("turning", "flocks") }, other)
	})
}

// BenchmarkOneHandOver is from the call of Release to the grant of the process
// that waits, by the clock that all processes of a host share. A third serves.
func BenchmarkOneHandOver(b *testing.B) {
	path := b.TempDir() + "/s"
	helping(b, path)
	c, other := opened(b, path), helping(b, path)
	ctx := context.Background()
	var took time.Duration
	n := 0
	for b.Loop() {
		l, err := c.Acquire(ctx, mutex("a"), exclusive)
		if err != nil {
			b.Fatal(err)
		}
		other.tell("stamp a")
		inLine(b, c, "a", 2)
		began := monotonic()
		if err := l.Release(ctx); err != nil {
			b.Fatal(err)
		}
		granted, err := strconv.ParseInt(other.hears("stamped"), 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		took += time.Duration(granted - began)
		n++
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(n), "ns/hand-over")
}

// takeTurns counts what this process and the other one do in the time.
func takeTurns(b *testing.B, take, begin func(), other *proc) {
	begin()
	mine := 0
	for b.Loop() {
		take()
		mine++
	}
	elapsed := b.Elapsed()
	theirs, err := strconv.Atoi(other.ask("turned", "stop"))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(elapsed.Nanoseconds())/float64(mine+theirs), "ns/grant")
}

// BenchmarkSuccession is from the kill of the server to the grant of a waiter.
func BenchmarkSuccession(b *testing.B) {
	path := b.TempDir() + "/s"
	var took time.Duration
	n := 0
	for b.Loop() {
		server := helping(b, path)
		client, waiter := helping(b, path), helping(b, path)
		server.lock("a")
		waiter.tell("lock a")
		client.ask("awaited", "await a 2")
		began := time.Now()
		server.signal(syscall.SIGKILL)
		waiter.hears("locked a")
		took += time.Since(began)
		n++
		for _, p := range []*proc{server, client, waiter} {
			p.kill()
		}
	}
	b.ReportMetric(float64(took.Microseconds())/float64(n), "µs/succession")
}
