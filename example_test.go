package coord_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
	_ "github.com/gocoord/coord/backend/memory"
	"github.com/gocoord/coord/fence"
)

// client opens a space of its own, where an application would pass its config
// URL.
func client() *coord.Client {
	c, err := coord.Open(context.Background(), "memory://")
	if err != nil {
		log.Fatal(err)
	}
	return c
}

func Example() {
	ctx := context.Background()
	c, err := coord.Open(ctx, "memory://")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	hold, err := c.Locker("nightly-report").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Release()
	fmt.Println("one at a time:", hold.Name())
	// Output: one at a time: nightly-report
}

func ExampleLocker() {
	c := client()
	defer c.Close()
	ctx := context.Background()

	hold, err := c.Locker("printer").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.Locker("printer").TryLock(ctx)
	fmt.Println("busy:", errors.Is(err, coord.ErrBusy))

	waiting, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err = c.Locker("printer").Lock(waiting)
	fmt.Println("in vain:", errors.Is(err, context.DeadlineExceeded))

	fmt.Println("released:", hold.Release() == nil)
	// Output:
	// busy: true
	// in vain: true
	// released: true
}

func ExampleRWLocker() {
	c := client()
	defer c.Close()
	ctx := context.Background()
	config := c.RWLocker("config")

	writer, err := config.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = config.TryRLock(ctx)
	fmt.Println("a reader beside the writer:", err == nil)

	// The writer goes on as a reader, and no other writer gets in between.
	if err := writer.Downgrade(ctx); err != nil {
		log.Fatal(err)
	}
	reader, err := config.TryRLock(ctx)
	fmt.Println("a reader beside a reader:", err == nil)
	reader.Release()
	writer.Release()
	// Output:
	// a reader beside the writer: false
	// a reader beside a reader: true
}

func ExampleBarrier() {
	c := client()
	defer c.Close()
	ctx := context.Background()

	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			round, err := c.Barrier("start", 3).Enter(ctx) // until all 3 are here
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println("together:", len(round.Members()))
			if err := round.Leave(ctx); err != nil { // until all 3 are done
				log.Fatal(err)
			}
		})
	}
	wg.Wait()
	// Output:
	// together: 3
	// together: 3
	// together: 3
}

func ExampleSemaphore() {
	c := client()
	defer c.Close()
	ctx := context.Background()
	downloads := c.Semaphore("downloads", 4)

	big, err := downloads.Acquire(ctx, 3)
	if err != nil {
		log.Fatal(err)
	}
	_, err = downloads.TryAcquire(ctx, 2)
	fmt.Println("2 more:", err == nil)
	_, err = downloads.TryAcquire(ctx, 1)
	fmt.Println("1 more:", err == nil)
	big.Release()
	// Output:
	// 2 more: false
	// 1 more: true
}

func ExampleElection() {
	c := client()
	defer c.Close()
	ctx := context.Background()
	e := c.Election("scheduler")

	hold, err := e.Campaign(ctx, []byte("10.0.0.1:7000"))
	if err != nil {
		log.Fatal(err)
	}
	leader, err := e.Leader(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("leader at %s\n", leader.Data)
	hold.Release() // resign
	leader, _ = e.Leader(ctx)
	fmt.Println("leader after that:", leader)
	// Output:
	// leader at 10.0.0.1:7000
	// leader after that: <nil>
}

func ExampleElection_Watch() {
	c := client()
	defer c.Close()
	ctx := context.Background()
	e := c.Election("scheduler")
	hold, err := e.Campaign(ctx, []byte("a"))
	if err != nil {
		log.Fatal(err)
	}
	for leader, err := range e.Watch(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if leader == nil {
			fmt.Println("no leader")
			break
		}
		fmt.Printf("leader %s\n", leader.Data)
		hold.Release()
	}
	// Output:
	// leader a
	// no leader
}

func ExampleGroup() {
	c := client()
	defer c.Close()
	ctx := context.Background()
	g := c.Group("cache-nodes")
	for _, addr := range []string{"10.0.0.1", "10.0.0.2"} {
		if _, err := g.Join(ctx, []byte(addr)); err != nil {
			log.Fatal(err)
		}
	}
	members, err := g.Members(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range members {
		fmt.Printf("%s\n", m.Data)
	}
	// Output:
	// 10.0.0.1
	// 10.0.0.2
}

func ExampleLatch() {
	c := client()
	defer c.Close()
	ctx := context.Background()
	migrated := c.Latch("schema-migrated", 2)
	for range 2 {
		if err := migrated.CountDown(ctx); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("open:", migrated.Wait(ctx) == nil)
	// Output: open: true
}

func ExampleAll() {
	c := client()
	defer c.Close()
	// Whoever takes these two takes them in one order, and never waits in a
	// circle.
	both := coord.All(c.Locker("account/7"), c.Locker("account/3"))
	hold, err := both.Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Release()
	fmt.Println("holds", len(hold.Parts()))
	// Output: holds 2
}

func ExampleWith() {
	c := client()
	defer c.Close()
	err := coord.With(context.Background(), c.Locker("report"), func(ctx context.Context, h *coord.Hold) error {
		// ctx ends when the hold is lost, so this stops in time.
		fmt.Println("held:", h.Err() == nil, "ctx:", ctx.Err())
		return nil
	})
	fmt.Println("error:", err)
	// Output:
	// held: true ctx: <nil>
	// error: <nil>
}

func ExampleRequire() {
	_, err := coord.Open(context.Background(), "memory://", coord.Require(coord.Requirement{Scope: backend.Network}))
	fmt.Println(err)
	// Output: coord: open (memory): unsupported operation: backend memory coordinates within one process only, and network is required
}

func ExampleHold_Token() {
	c := client()
	defer c.Close()
	ctx := context.Background()
	var gate fence.Gate // at the resource

	slow, err := c.Locker("file").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	stale := slow.Token()
	slow.Release() // in truth: paused, until its session was over

	next, err := c.Locker("file").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer next.Release()
	fmt.Println("the holder writes:", gate.Admit(next.Token()) == nil)
	fmt.Println("the late one writes:", !errors.Is(gate.Admit(stale), fence.ErrStale))
	// Output:
	// the holder writes: true
	// the late one writes: false
}
