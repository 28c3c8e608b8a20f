//go:build !unix

package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// guardCommand has no use here.
const guardCommand = "__guard"

func guardMain() int { return 0 }

// lookUp finds a command before anything is waited for.
func lookUp(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) {
		return "", &exitError{exitNotFound, fmt.Errorf("%s: command not found in PATH", name)}
	}
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return "", &exitError{exitCannotRun, fmt.Errorf("%s: cannot be run: %w", name, err)}
	}
	return path, nil
}

// A process is the command's. It belongs to coord's console, which sends it
// what is typed there.
type process struct {
	pid     int
	changed chan os.Signal // something has happened: poll
	process *os.Process
	code    int // read after changed
}

func start(j job) (*process, error) {
	child, err := os.StartProcess(j.path, j.argv, &os.ProcAttr{
		Env: j.env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		return nil, &exitError{exitCannotRun, fmt.Errorf("%s: cannot be run: %w", j.argv[0], err)}
	}
	p := &process{pid: child.Pid, changed: make(chan os.Signal, 1), process: child}
	go func() {
		p.code = exitSystem
		if state, err := child.Wait(); err == nil {
			p.code = state.ExitCode()
		}
		p.changed <- os.Kill
	}()
	return p, nil
}

func (p *process) close() {}

func (p *process) poll() event { return event{what: hasEnded, code: p.code} }

// forward does nothing: the console has told the command already.
func (p *process) forward(os.Signal) {}

// terminate is kill: there is no asking here.
func (p *process) terminate() { p.kill() }

func (p *process) kill() { _ = p.process.Kill() }

func (p *process) finish(<-chan time.Time) {}

func (p *process) suspend(os.Signal) bool { return false }

func (p *process) resume() {}
