//go:build unix

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// lookUp finds a command before anything is waited for.
func lookUp(name string) (string, error) {
	path, err := exec.LookPath(name)
	// A relative directory in PATH is the caller's wish, as for a shell.
	if errors.Is(err, exec.ErrDot) {
		err = nil
	}
	if err != nil {
		return "", cannotRun(name, errors.Unwrap(err))
	}
	return path, nil
}

// cannotRun is the error for a command that could not be run, with the status
// that a shell gives.
func cannotRun(name string, err error) error {
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return &exitError{exitNotFound, fmt.Errorf("%s: command not found in PATH", name)}
	case errors.Is(err, fs.ErrNotExist):
		return &exitError{exitNotFound, fmt.Errorf("%s: %w (or the interpreter in its first line does not exist)", name, err)}
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		return &exitError{exitSystem, fmt.Errorf("%s: no process for it: %w", name, err)}
	default:
		return &exitError{exitCannotRun, fmt.Errorf("%s: cannot be run: %w", name, err)}
	}
}

// A process is the command's. It has a process group of its own: only so does
// every signal reach it exactly once, whether it was sent to coord, to coord's
// group or by the terminal.
type process struct {
	pid     int
	changed chan os.Signal // something may have happened: poll
	tty     *terminal      // nil where there is none
	front   bool           // it wants the terminal whenever coord has it
	leash   *leash         // nil: none
	passed  map[os.Signal]bool
}

// start starts the job's process. Its standard files are coord's own, so that
// nothing has to be copied, or waited for, on their account.
func start(j job) (*process, error) {
	p := &process{changed: make(chan os.Signal, 1), tty: openTerminal(), passed: make(map[os.Signal]bool)}
	signal.Notify(p.changed, syscall.SIGCHLD)
	attr := &syscall.ProcAttr{
		Env:   j.env,
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	}
	if j.leash {
		p.leash = newLeash()
		dieWithParent(attr.Sys)
	}
	if p.tty != nil && (j.foreground || p.tty.ours()) && p.tty.inFront() {
		attr.Sys.Foreground, attr.Sys.Ctty = true, p.tty.fd
		p.front, p.tty.given = true, true
	}
	pid, err := syscall.ForkExec(j.path, j.argv, attr)
	if errors.Is(err, syscall.ENOEXEC) {
		// A script without a first line that names its shell.
		pid, err = syscall.ForkExec("/bin/sh", append([]string{"sh", j.path}, j.argv[1:]...), attr)
	}
	if err != nil {
		p.close()
		return nil, cannotRun(j.argv[0], err)
	}
	p.pid = pid
	p.leash.tie(pid)
	return p, nil
}

// close lets go of what start took, the terminal above all.
func (p *process) close() {
	signal.Stop(p.changed)
	p.leash.untie()
	p.tty.takeBack()
	p.tty.close()
}

// poll looks whether the process has stopped or ended.
func (p *process) poll() event {
	var ws syscall.WaitStatus
	pid, err := syscall.Wait4(p.pid, &ws, syscall.WNOHANG|syscall.WUNTRACED, nil)
	switch {
	case errors.Is(err, syscall.EINTR):
		return p.poll()
	case err != nil:
		return event{what: hasEnded, code: exitSystem}
	case pid != p.pid:
		return event{}
	case ws.Exited():
		return event{what: hasEnded, code: ws.ExitStatus()}
	case ws.Signaled():
		p.relay(ws.Signal())
		return event{what: hasEnded, code: exitSignal + int(ws.Signal())}
	case ws.Stopped():
		return event{what: hasStopped, signal: ws.StopSignal()}
	}
	return event{}
}

// forward passes a signal on. Those that the terminal could have sent are for
// the whole group, as they would have been; the others are between the sender
// and the command.
func (p *process) forward(s os.Signal) {
	sig, ok := s.(syscall.Signal)
	if !ok {
		return
	}
	p.passed[s] = true
	if sig == syscall.SIGUSR1 || sig == syscall.SIGUSR2 {
		_ = syscall.Kill(p.pid, sig)
		return
	}
	p.signal(sig)
}

// relay passes what was typed, and ended the command that had the terminal, to
// those who would have got it, too, without coord: a script that runs it.
func (p *process) relay(sig syscall.Signal) {
	if p.tty != nil && p.tty.given && !p.passed[sig] && (sig == syscall.SIGINT || sig == syscall.SIGQUIT) {
		_ = syscall.Kill(0, sig)
	}
}

// signal sends to the group, or to the process alone if it went to another one.
func (p *process) signal(sig syscall.Signal) {
	if syscall.Kill(-p.pid, sig) != nil {
		_ = syscall.Kill(p.pid, sig)
	}
}

// terminate asks the group to end. One that is stopped has to be woken for it.
func (p *process) terminate() {
	p.signal(syscall.SIGTERM)
	p.signal(syscall.SIGCONT)
}

func (p *process) kill() { p.signal(syscall.SIGKILL) }

// finish waits until nobody is left in the group of a process that has ended,
// and kills them when the grace is over. They are not our children, so that
// there is no event to wait for. A nil grace is over.
func (p *process) finish(grace <-chan time.Time) {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	if grace == nil {
		over := make(chan time.Time)
		close(over)
		grace = over
	}
	for syscall.Kill(-p.pid, 0) == nil {
		select {
		case <-look.C:
			continue
		case <-grace:
		}
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
		break
	}
	// The killed need a moment; but one that nobody reaps stays for good.
	for n := 0; n < 20 && syscall.Kill(-p.pid, 0) == nil; n++ {
		<-look.C
	}
}

func (p *process) resume() {
	if p.front && p.tty.inFront() {
		p.tty.give(p.pid)
	}
	p.signal(syscall.SIGCONT)
}

// suspend does what has to be done about a process that was stopped by this
// signal, and reports whether it is to go on afterwards.
func (p *process) suspend(s os.Signal) bool {
	sig, _ := s.(syscall.Signal)
	wants := sig == syscall.SIGTTIN || sig == syscall.SIGTTOU
	p.front = p.front || wants
	switch {
	case p.tty == nil, sig == syscall.SIGSTOP:
		return false // whoever stopped it will continue it
	case wants && p.tty.inFront():
		return true // it asked for the terminal, and gets it
	case p.tty.orphaned():
		// No shell would continue us. The kernel does not let such groups
		// stop, and fails their reads.
		if wants {
			p.signal(syscall.SIGHUP)
		}
		return true
	}
	group := p.tty.given
	p.tty.takeBack()
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if group {
		// The terminal stopped the command alone; the rest of the job, a
		// script for one, has to stop for the shell to go on.
		stopSiblings()
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	// The stop is not immediate, and what follows must come after it.
	select {
	case <-continued:
	case <-time.After(time.Second):
	}
	return true
}
