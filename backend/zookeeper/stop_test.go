//go:build unix

package zookeeper_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/testenv"
)

// noticeable is a pause by which the helper knows that it was stopped.
const noticeable = time.Second

// runHelper takes a lock, and says in a tight loop what it thinks of it.
func runHelper(url string) int {
	b, err := tryOpen(context.Background(), url)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	l, err := b.Acquire(context.Background(), backend.Place{Kind: backend.Mutex, Name: os.Getenv("COORD_ZOOKEEPER_NAME")}, exclusive)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	last := time.Now() // it may be stopped as soon as it has said so
	fmt.Println("held")
	go func() { // whoever started it is gone
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	for {
		now := time.Now()
		err := l.Err()
		deadline, _ := l.Deadline()
		// The first look after a long stop must already see the loss.
		if now.Sub(last) > noticeable {
			fmt.Println("woke", err != nil, time.Now().After(deadline), err)
			return 0
		}
		last = now
		time.Sleep(time.Millisecond)
	}
}

func startHelper(t *testing.T, c *testenv.ZooKeeper, p backend.Place, query string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "COORD_ZOOKEEPER_HELPER=zk://"+hosts(c)+"/test"+query, "COORD_ZOOKEEPER_NAME="+p.Name)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); line != "held\n" {
		t.Fatalf("helper: %q, %v", line, err)
	}
	return cmd, r
}

func TestStoppedProcess(t *testing.T) {
	c := testenv.SharedZooKeeper(t, 1)
	p := newPlace(backend.Mutex)
	b := open(t, hosts(c), "")
	cmd, out := startHelper(t, c, p, "?session=2s")
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	hold := acquire(t, b, p, exclusive)
	// On a busy machine it may have lost its session before it was stopped.
	time.Sleep(time.Until(stopped.Add(2 * noticeable)))
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	line, err := out.ReadString('\n')
	if !strings.HasPrefix(line, "woke true true ") {
		t.Errorf("helper: %q, %v", line, err)
	}
	if err := hold.Err(); err != nil {
		t.Error(err)
	}
}

func TestKilledProcess(t *testing.T) {
	c := testenv.SharedZooKeeper(t, 1)
	p := newPlace(backend.Mutex)
	b := open(t, hosts(c), "")
	cmd, _ := startHelper(t, c, p, "?session=2s")
	w := goAcquire(t, b, p, exclusive)
	roster(t, b, p, 2)
	start := time.Now()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	release(t, w.must())
	if d := time.Since(start); d > 4*time.Second {
		t.Errorf("admitted %v after the holder was killed", d)
	}
}
