//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// A terminal is the controlling one. Nil is none.
type terminal struct {
	fd    int
	given bool // the command's group has it
}

func openTerminal() *terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return &terminal{fd: fd}
}

func (t *terminal) close() {
	if t != nil {
		_ = unix.Close(t.fd)
	}
}

// inFront reports whether coord's group has the terminal.
func (t *terminal) inFront() bool {
	if t == nil {
		return false
	}
	front, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	return err == nil && front == unix.Getpgrp()
}

// ours reports whether a shell started coord as a job of its own, with the
// terminal on both sides. Then it is given to the command at once. In a script
// or a pipeline others of the group may need it: there the command gets it when
// it asks, by stopping on it.
func (t *terminal) ours() bool {
	return unix.Getpgrp() == os.Getpid() && term.IsTerminal(0) && term.IsTerminal(1)
}

// orphaned reports whether no shell watches over coord's group.
func (t *terminal) orphaned() bool {
	session, err := unix.Getsid(0)
	if err != nil || session == unix.Getpgrp() {
		return true
	}
	parent, err := unix.Getsid(os.Getppid())
	return err != nil || parent != session
}

func (t *terminal) give(group int) {
	if t.set(group) {
		t.given = true
	}
}

func (t *terminal) takeBack() {
	if t != nil && t.given {
		t.set(unix.Getpgrp())
		t.given = false
	}
}

// set makes a group the foreground one. From the background that stops the
// caller, unless it ignores it.
func (t *terminal) set(group int) bool {
	signal.Ignore(syscall.SIGTTOU) // from here on; the command was started before
	return unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) == nil
}

// stopSiblings stops the others of coord's group, by a signal that coord has no
// other use for.
func stopSiblings() {
	signal.Ignore(syscall.SIGTTIN)
	_ = syscall.Kill(0, syscall.SIGTTIN)
}
