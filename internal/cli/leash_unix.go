//go:build unix

package cli

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

// guardCommand is how coord starts itself as a guard.
const guardCommand = "__guard"

// A leash ends the command's whole group when coord dies without having
// untied it, by SIGKILL for one. At its other end is a guard: a second process
// of coord, in a session of its own, that reads a pipe of which coord has the
// only writing end. Nil does nothing.
type leash struct {
	pipe  *os.File
	guard int
}

// newLeash starts a guard. Where that fails there is only the kernel's own
// means, if any: no reason not to run the command.
func newLeash() *leash {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = null.Close() }()
	r, w, err := os.Pipe()
	if err != nil {
		return nil
	}
	defer func() { _ = r.Close() }()
	guard, err := syscall.ForkExec(self, []string{"coord", guardCommand}, &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{},
		Files: []uintptr{r.Fd(), null.Fd(), null.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_ = w.Close()
		return nil
	}
	return &leash{w, guard}
}

// tie names the group. The guard may not be up yet; the pipe keeps it.
func (l *leash) tie(group int) {
	if l != nil {
		_, _ = l.pipe.WriteString(strconv.Itoa(group) + "\n")
	}
}

// untie ends the guard, and only then lets go of the pipe.
func (l *leash) untie() {
	if l == nil {
		return
	}
	_ = syscall.Kill(l.guard, syscall.SIGKILL)
	for {
		if _, err := syscall.Wait4(l.guard, nil, 0, nil); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	_ = l.pipe.Close()
}

// guardMain is the guard. It waits for the end of the pipe.
func guardMain() int {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	line, _ := io.ReadAll(os.Stdin)
	group, err := strconv.Atoi(strings.TrimSpace(string(line)))
	if err == nil && group > 1 {
		_ = syscall.Kill(-group, syscall.SIGKILL)
	}
	return 0
}
