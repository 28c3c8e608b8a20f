package cli

import (
	"os"
	"runtime"
	"time"
)

// A job is a command to run.
type job struct {
	path string
	argv []string
	env  []string

	foreground bool // it gets the terminal at once
	leash      bool // it must not outlive this process unnoticed
}

// An outcome is how a job ended.
type outcome struct {
	code    int
	started bool
	lost    bool  // what it ran under was lost meanwhile
	err     error // it could not be run
}

// supervise runs the job until its process has ended. Everything about that
// process happens on this goroutine, so that no signal is sent to it after it
// was reaped, when its number may be another's.
func (a *app) supervise(signals *signals, h *holding, got *admission, j job) outcome {
	// The kernel watches over the thread that started the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	signals.running()
	if err := got.err(); err != nil {
		a.warn("%s was lost before the command was started: %s", got, reason(err))
		return outcome{code: h.lost.code, lost: true}
	}
	p, err := start(j)
	if err != nil {
		return outcome{code: status(err), err: err}
	}
	defer p.close()
	a.logger().Debug("coord: started", "command", j.path, "pid", p.pid)

	var (
		out   = outcome{started: true}
		done  = got.done
		grace <-chan time.Time
	)
	lose := func() {
		done = nil
		out.lost = true
		if h.onLoss == lossIgnore {
			a.warn("%s was lost while the command runs, which goes on (--on-loss=ignore): %s", got, reason(got.err()))
			return
		}
		a.warn("%s was lost; the command gets TERM, and KILL after %v: %s", got, time.Duration(h.grace), reason(got.err()))
		p.terminate()
		timer := time.NewTimer(time.Duration(h.grace))
		grace = timer.C
	}
	for {
		select {
		case s := <-signals.c:
			p.forward(s)
		case <-done:
			lose()
		case <-grace:
			a.warn("the command does not end; it gets KILL")
			grace = nil
			p.kill()
		case <-p.changed:
			switch e := p.poll(); e.what {
			case hasStopped:
				back := p.suspend(e.signal)
				// It may have been a long time. The command must not take a
				// step before it is known that it may.
				if done != nil && got.err() != nil {
					lose()
				} else if back {
					p.resume()
				}
			case hasEnded:
				out.code = e.code
				if out.lost && h.onLoss != lossIgnore {
					p.finish(grace)
				}
				return out
			}
		}
	}
}

// What poll can have found.
const (
	nothing = iota
	hasStopped
	hasEnded
)

// An event is a change of a process.
type event struct {
	what   int
	signal os.Signal // that stopped it
	code   int       // exit status, or 128 and the signal that ended it
}
