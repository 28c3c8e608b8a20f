package zookeeper_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/testenv"
)

// network is where a benchmark runs.
type network struct {
	name    string
	nodes   int
	delayed bool // by a millisecond each way
}

// each runs f on one node, on three, and on one that is a millisecond away.
func each(b *testing.B, f func(b *testing.B, z *testenv.ZooKeeper, hosts string)) {
	for _, n := range []network{{"nodes=1", 1, false}, {"nodes=3", 3, false}, {"nodes=1,1ms", 1, true}} {
		b.Run(n.name, func(b *testing.B) {
			z := testenv.SharedZooKeeper(b, n.nodes)
			addrs := z.Endpoints()
			if n.delayed {
				p := testenv.NewProxy(b, "tcp", addrs[0])
				p.Delay(time.Millisecond)
				addrs = []string{p.Addr()}
			}
			f(b, z, strings.Join(addrs, ","))
		})
	}
}

// A locker takes a lock and gives it back.
type locker func() error

func ours(b *testing.B, hosts string, p backend.Place) locker {
	client := open(b, hosts, "")
	return func() error {
		l, err := client.Acquire(context.Background(), p, exclusive)
		if err != nil {
			return err
		}
		return l.Release(context.Background())
	}
}

func goZookeeper(b *testing.B, hosts string, p backend.Place) locker {
	conn, _, err := zk.Connect(strings.Split(hosts, ","), 10*time.Second, zk.WithLogger(silent{}))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(conn.Close)
	l := zk.NewLock(conn, linePath(p), zk.WorldACL(zk.PermAll))
	return func() error {
		if err := l.Lock(); err != nil {
			return err
		}
		return l.Unlock()
	}
}

// contend has all lockers ask for the lock over and over, for n grants.
func contend(b *testing.B, n int, lockers []locker) {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for _, l := range lockers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := l(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkLock(b *testing.B) {
	each(b, func(b *testing.B, _ *testenv.ZooKeeper, hosts string) {
		for _, n := range []int{1, 2, 8} {
			for _, who := range []struct {
				name string
				make func(*testing.B, string, backend.Place) locker
			}{{"coord", ours}, {"go-zookeeper", goZookeeper}} {
				b.Run(fmt.Sprintf("contenders=%d/%s", n, who.name), func(b *testing.B) {
					p := newPlace(backend.Mutex)
					var lockers []locker
					for range n {
						lockers = append(lockers, who.make(b, hosts, p))
					}
					contend(b, n, lockers)
					b.ResetTimer()
					contend(b, b.N, lockers)
				})
			}
			clients := fmt.Sprint(n)
			b.Run(fmt.Sprintf("contenders=%d/curator", n), func(b *testing.B) {
				program(b, startProgram(b, "java", "-cp", classPath(), "testdata/Peer.java", hosts, linePath(newPlace(backend.Mutex)), "mutex", clients))
			})
			b.Run(fmt.Sprintf("contenders=%d/kazoo", n), func(b *testing.B) {
				program(b, startProgram(b, "/usr/bin/python3", "testdata/peer.py", hosts, linePath(newPlace(backend.Mutex)), "mutex", clients))
			})
		}
	})
}

// program has a peer's own program run the loop.
func program(b *testing.B, p *peerProgram) {
	p.say("bench 200") // the program and its Java warm up
	p.expect("done")
	b.ResetTimer()
	p.say(fmt.Sprintf("bench %d", b.N))
	p.expect("done")
	b.StopTimer()
}

// Acquiring alone: what a caller waits for before it has the lock.
func BenchmarkAcquire(b *testing.B) {
	each(b, func(b *testing.B, _ *testenv.ZooKeeper, hosts string) {
		b.Run("coord", func(b *testing.B) {
			client, p := open(b, hosts, ""), newPlace(backend.Mutex)
			alone(b, func() (func() error, error) {
				l, err := client.Acquire(context.Background(), p, exclusive)
				return func() error { return l.Release(context.Background()) }, err
			})
		})
		b.Run("go-zookeeper", func(b *testing.B) {
			conn, _, err := zk.Connect(strings.Split(hosts, ","), 10*time.Second, zk.WithLogger(silent{}))
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(conn.Close)
			l := zk.NewLock(conn, linePath(newPlace(backend.Mutex)), zk.WorldACL(zk.PermAll))
			alone(b, func() (func() error, error) { return l.Unlock, l.Lock() })
		})
	})
}

// alone leaves out the time of releasing.
func alone(b *testing.B, take func() (release func() error, err error)) {
	for i := range b.N + 1 {
		if i == 1 {
			b.ResetTimer() // the place is there
		}
		release, err := take()
		b.StopTimer()
		if err == nil {
			err = release()
		}
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
