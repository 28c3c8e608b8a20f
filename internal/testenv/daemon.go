package testenv

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
)

// daemon is a server's process, which can be killed, suspended and started
// again, and its log, which goes on.
type daemon struct {
	logPath   string
	logStart  int64    // where the log of the present process begins
	proc      *process // nil while it is killed
	suspended bool
}

var errNotRunning = errors.New("the node does not run: Restart it first")

func (d *daemon) start(cmd *exec.Cmd) error {
	log, err := os.OpenFile(d.logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own handle
	if d.logStart, err = log.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = log, log
	d.suspended = false
	d.proc, err = startProcess(cmd)
	return err
}

// running reports that the process has not ended.
func (d *daemon) running() error {
	if d.proc == nil || d.proc.ended.Err() != nil {
		return errNotRunning
	}
	return nil
}

func (d *daemon) kill() error {
	if d.proc == nil {
		return nil
	}
	err := d.proc.kill()
	d.proc, d.suspended = nil, false
	return err
}

func (d *daemon) suspend() error {
	err := d.running()
	if err == nil {
		err = d.proc.suspend()
	}
	d.suspended = d.suspended || err == nil
	return err
}

func (d *daemon) resume() error {
	err := d.running()
	if err == nil {
		err = d.proc.resume()
	}
	d.suspended = d.suspended && err != nil
	return err
}

// logOfProcess is what the present process has logged.
func (d *daemon) logOfProcess() []byte {
	data, err := os.ReadFile(d.logPath)
	if err != nil || int64(len(data)) < d.logStart {
		return nil
	}
	return data[d.logStart:]
}

func (d *daemon) logTail() string {
	data, err := os.ReadFile(d.logPath)
	if err != nil {
		return err.Error()
	}
	const lines = 40
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
