//go:build unix

package drivertest

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
)

const (
	helperURL  = "COORD_DRIVER_HELPER"
	helperName = "COORD_DRIVER_NAME"
)

// Main runs the tests by the given function, unless this process is the helper
// of one. It returns the exit code.
func Main(run func() int) int {
	if url := os.Getenv(helperURL); url != "" {
		return help(url)
	}
	return run()
}

// noticeable is a pause by which the helper knows that it was stopped.
const noticeable = time.Second

// help takes a lock, and says in a tight loop what it thinks of it.
func help(url string) int {
	b, err := TryOpen[backend.Backend](context.Background(), url)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	l, err := b.Acquire(context.Background(), backend.Place{Kind: backend.Mutex, Name: os.Getenv(helperName)}, Exclusive)
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

// startHelper starts a process that holds the lock of p.
func startHelper(t *testing.T, url string, p backend.Place) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperURL+"="+url, helperName+"="+p.Name)
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

// StoppedProcess stops a holder that is a client of the URL. Another one is
// admitted, and when the holder goes on its first look tells it that it lost.
func StoppedProcess(t *testing.T, other backend.Backend, url string) {
	p := NewPlace(backend.Mutex)
	cmd, out := startHelper(t, url, p)
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	hold := Acquire(t, other, p, Exclusive)
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

// KilledProcess kills a holder. Another one is admitted within the time.
func KilledProcess(t *testing.T, other backend.Backend, url string, within time.Duration) {
	p := NewPlace(backend.Mutex)
	cmd, _ := startHelper(t, url, p)
	w := Go(t, other, p, Exclusive)
	Roster(t, other, p, 2)
	start := time.Now()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	Release(t, w.Must())
	if d := time.Since(start); d > within {
		t.Errorf("admitted %v after the holder was killed", d)
	}
}
