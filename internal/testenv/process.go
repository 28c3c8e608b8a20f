package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

// process is a running child with a goroutine that owns it.
type process struct {
	cmd   *exec.Cmd
	ended context.Context // done once the child is gone
	end   context.CancelFunc
	err   error // how the child ended; read it only after that
}

// startProcess starts cmd so that it does not outlive this process.
func startProcess(cmd *exec.Cmd) (*process, error) {
	endWithParent(cmd)
	p := &process{cmd: cmd}
	p.ended, p.end = context.WithCancel(context.Background())
	started := make(chan error, 1)
	go p.own(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// own starts the child and waits for its end on one thread. The kernel's
// parent-death signal is tied to the thread that started the child, not to the
// process, so that thread has to live for as long as the child does.
func (p *process) own(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer p.end()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
}

// kill ends the child and waits until it is gone. That it was gone already is
// no error.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill process %d: %w", p.cmd.Process.Pid, err)
	}
	<-p.ended.Done()
	return nil
}
