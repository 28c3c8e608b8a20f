package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// awaitSuspended waits until every thread of the child has stopped. The signal
// is only on its way when sending it returns, and a thread that runs meanwhile
// may still answer a request.
func (p *process) awaitSuspended() error {
	for deadline := time.Now().Add(10 * time.Second); ; {
		stopped, err := p.allThreadsIn('T')
		if err != nil || stopped {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d did not stop", p.cmd.Process.Pid)
		}
		time.Sleep(100 * time.Microsecond)
	}
}

func (p *process) allThreadsIn(state byte) (bool, error) {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
	if err != nil {
		return false, err
	}
	if len(stats) == 0 {
		return false, os.ErrProcessDone
	}
	for _, path := range stats {
		got, err := stateIn(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // the thread has ended since
		}
		if err != nil || got != state {
			return false, err
		}
	}
	return true, nil
}

// stateIn reads the letter for the state of a process or thread.
func stateIn(path string) (byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	// The name before the state is in brackets and may hold anything.
	i := bytes.LastIndexByte(data, ')')
	if i < 0 || i+2 >= len(data) {
		return 0, fmt.Errorf("%s: cannot read %q", path, data)
	}
	return data[i+2], nil
}
