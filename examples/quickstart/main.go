// Quickstart lets three workers share a lock, a read/write lock and a barrier,
// and prints what each of them did and when.
//
// It runs inside this process. With COORD_URL it runs on the service that the
// URL names, as in
//
//	COORD_URL=etcd://127.0.0.1:2379/demo go run ./examples/quickstart
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/gocoord/coord"
	_ "github.com/gocoord/coord/backend/all"
)

var names = []string{"ada", "bob", "cleo"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, cmp.Or(os.Getenv("COORD_URL"), "memory://quickstart")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	line := newTimeline()
	var wg sync.WaitGroup
	for i := range names {
		wg.Go(func() {
			if err := work(ctx, url, i, line); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// work is what one worker does, over a client of its own.
func work(ctx context.Context, url string, i int, line *timeline) error {
	client, err := coord.Open(ctx, url, coord.WithOwner(names[i]))
	if err != nil {
		return err
	}
	defer client.Close()

	// One at a time: each adds to a report that has no protection of its own.
	err = coord.With(ctx, client.Locker("quickstart/report"), func(ctx context.Context, h *coord.Hold) error {
		line.say(i, "writes (token …%03d)", h.Token()%1000)
		defer line.say(i, "written")
		return pause(ctx, 30*time.Millisecond)
	})
	if err != nil {
		return err
	}

	// All together: nobody reads before everybody has written.
	round, err := client.Barrier("quickstart/written", len(names)).Enter(ctx)
	if err != nil {
		return err
	}
	line.say(i, "all %d are here", len(round.Members()))

	// Many at a time: readers share.
	err = coord.With(ctx, coord.RLocker(client.RWLocker("quickstart/report")), func(ctx context.Context, _ *coord.Hold) error {
		line.say(i, "reads")
		defer line.say(i, "has read")
		return pause(ctx, 30*time.Millisecond)
	})
	if err != nil {
		return err
	}
	if err := round.Leave(ctx); err != nil {
		return err
	}
	line.say(i, "leaves with all")
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A timeline prints one column for each worker.
type timeline struct {
	mu    sync.Mutex
	start time.Time
}

const column = 24

func newTimeline() *timeline {
	fmt.Printf("%9s", "")
	for _, name := range names {
		fmt.Printf("  %-*s", column, name)
	}
	fmt.Println()
	return &timeline{start: time.Now()}
}

func (l *timeline) say(i int, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ms := float64(time.Since(l.start).Microseconds()) / 1000
	fmt.Printf("%6.1f ms  %s%s\n", ms, strings.Repeat(" ", i*(column+2)), fmt.Sprintf(format, args...))
}
