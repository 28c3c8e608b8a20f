//go:build unix

package fence_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gocoord/coord"
	_ "github.com/gocoord/coord/backend/etcd"
	"github.com/gocoord/coord/fence"
	"github.com/gocoord/coord/internal/testenv"
)

const helperURL = "COORD_FENCE_HELPER_URL"

func TestMain(m *testing.M) {
	if url := os.Getenv(helperURL); url != "" {
		writeLate(url)
		return
	}
	os.Exit(testenv.Main(m))
}

// writeLate is a careless holder: it takes the lock, and writes whenever it is
// told to, without a look at its hold.
func writeLate(url string) {
	client, err := coord.Open(context.Background(), url)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	hold, err := client.Locker("file").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for in := bufio.NewScanner(os.Stdin); ; {
		fmt.Println(hold.Token())
		if !in.Scan() {
			return
		}
	}
}

// TestLateWriteIsRefused stops a real process in the middle of its work, until
// its session is over and another holds the lock. When it goes on it writes,
// and only the gate keeps the write out.
func TestLateWriteIsRefused(t *testing.T) {
	cluster := testenv.Etcd(t)
	url := "etcd://" + cluster.Endpoints()[0] + "/fence?ttl=2s"
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), helperURL+"="+url)
	holder.Stderr = os.Stderr
	orders, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = holder.Process.Kill()
		_ = holder.Wait()
	})
	lines := bufio.NewReader(out)
	write := func() uint64 {
		line, err := lines.ReadString('\n')
		token, err2 := strconv.ParseUint(strings.TrimSpace(line), 10, 64)
		if err := errors.Join(err, err2); err != nil {
			t.Fatalf("the holder said %q: %v", line, err)
		}
		return token
	}

	var resource fence.Gate
	if err := resource.Admit(write()); err != nil {
		t.Fatalf("the holder's first write: %v, want nil", err)
	}
	if err := holder.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	client, err := coord.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	next, err := client.Locker("file").Lock(t.Context()) // once the session is over
	if err != nil {
		t.Fatal(err)
	}
	if err := resource.Admit(next.Token()); err != nil {
		t.Fatalf("the next holder's write: %v, want nil", err)
	}
	if err := holder.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(orders, "write"); err != nil {
		t.Fatal(err)
	}
	if err := resource.Admit(write()); !errors.Is(err, fence.ErrStale) {
		t.Errorf("the late write: %v, want ErrStale", err)
	}
	if err := next.Err(); err != nil {
		t.Errorf("the next holder: %v, want nil", err)
	}
}
