package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// state is the letter of a process in /proc, or 0 if there is no process.
func state(t *testing.T, pid int) byte {
	t.Helper()
	state, err := stateIn(fmt.Sprintf("/proc/%d/stat", pid))
	// The second is the error for a process that ends while it is read.
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
		t.Fatal(err)
	}
	return state
}

func awaitState(t *testing.T, pid int, what string, ok func(byte) bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(state(t, pid)); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d is in state %q, want %s", pid, state(t, pid), what)
		}
	}
}

func TestStopAndCont(t *testing.T) {
	t.Parallel()
	c := Etcd(t, Nodes(3))
	leader := c.Leader()
	c.Stop(leader)
	if s := state(t, c.s.nodes[leader].proc.cmd.Process.Pid); s != 'T' {
		t.Errorf("the stopped node is in state %q", s)
	}
	next := c.Leader()
	if next == leader {
		t.Fatalf("node %d leads, but it is stopped", leader)
	}
	// The kernel still takes connections for it, but nobody answers.
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", c.Endpoints()[leader])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	c.Cont(leader)
	if err := c.s.awaitHealth(c.s.nodes[leader]); err != nil {
		t.Error(err)
	}
	c.Leader()
	// A stopped node can be killed.
	c.Stop(leader)
	c.Kill(leader)
	c.Restart(leader)
}

// TestNothingOutlivesTheTestBinary kills a test binary that has a cluster and
// sees the cluster end.
func TestNothingOutlivesTheTestBinary(t *testing.T) {
	const child = "COORD_TESTENV_CHILD"
	if os.Getenv(child) != "" {
		c := Etcd(t)
		fmt.Println("pid", c.s.nodes[0].proc.cmd.Process.Pid, c.URLs()[0])
		select {}
	}
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), child+"=1", "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := startProcess(cmd)
	if err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	var fields []string
	for buf := make([]byte, 1024); len(fields) < 3; {
		n, err := out.Read(buf)
		printed.Write(buf[:n])
		if before, _, ok := strings.Cut(printed.String(), "\n"); ok {
			fields = strings.Fields(before)
		}
		if err != nil && !errors.Is(err, io.EOF) || err != nil && len(fields) < 3 {
			t.Fatalf("the child printed %q: %v", printed.String(), err)
		}
	}
	pid, err := strconv.Atoi(fields[1])
	if err != nil {
		t.Fatalf("the child printed %q", printed.String())
	}
	if err := health(t, fields[2], nil); err != nil {
		t.Fatal(err)
	}
	if err := p.kill(); err != nil {
		t.Fatal(err)
	}
	// Gone, or dead and not yet reaped by whoever inherited it.
	awaitState(t, pid, "gone", func(s byte) bool { return s == 0 || s == 'Z' || s == 'X' })
}
