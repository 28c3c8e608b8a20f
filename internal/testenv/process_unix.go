//go:build unix

package testenv

import "syscall"

// suspend freezes the child: its connections stay open and nothing answers.
func (p *process) suspend() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return p.awaitSuspended()
}

// resume lets a frozen child run again.
func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
