//go:build unix

package cli

import (
	"bufio"
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
type leash struct{ pipe *os.File }

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
	_, err = syscall.ForkExec(self, []string{"coord", guardCommand}, &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{},
		Files: []uintptr{r.Fd(), null.Fd(), null.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_ = w.Close()
		return nil
	}
	return &leash{w}
}

// tie names the group. The guard may not be up yet; the pipe keeps it.
func (l *leash) tie(group int) {
	if l != nil {
		_, _ = l.pipe.WriteString(strconv.Itoa(group) + "\n")
	}
}

// untie ends the guard.
func (l *leash) untie() {
	if l != nil {
		_, _ = l.pipe.WriteString(untied + "\n")
		_ = l.pipe.Close()
	}
}

const untied = "untied"

// guardMain is the guard.
func guardMain() int {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadString('\n')
	group, nerr := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || nerr != nil || group <= 1 {
		return 0 // coord ended before it ran anything
	}
	if line, _ := in.ReadString('\n'); strings.TrimSpace(line) != untied {
		_ = syscall.Kill(-group, syscall.SIGKILL)
	}
	return 0
}
