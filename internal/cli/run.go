package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
)

const defaultGrace = 10 * time.Second

// run obtains a claim, runs the command under it and gives it back. Signals are
// in its hands from the first line on, so that none can end the program between
// the grant and the release.
func (a *app) run(ctx context.Context, h *holding, c claim, name string, command []string) error {
	if err := h.check(); err != nil {
		return err
	}
	path, err := lookUp(command[0])
	if err != nil {
		return err
	}
	t, err := a.target()
	if err != nil {
		return err
	}
	signals := watchSignals()
	writeOn()

	var s *service
	defer func() {
		if s != nil {
			a.closed(s)
		}
	}()
	obtain := func(ctx context.Context) (*admission, error) {
		var err error
		if s, err = a.connect(ctx, t); err != nil {
			return nil, err
		}
		return c.obtain(ctx, s, name, h.try)
	}
	got, sig, err := await(ctx, signals, time.Duration(h.timeout), obtain)
	if sig != nil {
		if got != nil {
			a.released(got, got.release(ended(ctx)))
		}
		a.warn("%s while waiting for %s %q; the command was not started", caught{sig}, c.kind(), name)
		return exit(exitSignal + number(sig))
	}
	if err != nil {
		if status(err) == exitBusy {
			return &exitError{h.busy.code, a.notObtained(h, c, name, err)}
		}
		return err
	}
	if s.Info().Scope == backend.Process {
		a.warn("%s:// coordinates within one process only: this keeps nobody else out", t.scheme())
	}
	return a.hold(ctx, signals, h, got, job{
		path: path, argv: command, env: a.environment(h, t, got),
		foreground: h.front, leash: h.onLoss != lossIgnore,
	})
}

func (a *app) notObtained(h *holding, c claim, name string, err error) error {
	if h.try {
		return fmt.Errorf("%s %q is not free", c.kind(), name)
	}
	if h.timeout > 0 && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s %q was not obtained within %v", c.kind(), name, time.Duration(h.timeout))
	}
	return err
}

// hold runs the job under what was obtained, and gives it back.
func (a *app) hold(ctx context.Context, signals *signals, h *holding, got *admission, j job) error {
	a.logger().Debug("coord: obtained", "kind", got.kind.String(), "name", got.name, "token", got.token)
	out := a.supervise(signals, h, got, j)
	var err error
	if got.waits {
		var sig os.Signal
		_, sig, err = await(ctx, signals, 0, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, got.release(ctx)
		})
		if sig != nil {
			a.warn("%s while the other parties of %s were still inside", caught{sig}, got)
			out.code, out.err = exitSignal+number(sig), nil
		}
	} else {
		err = got.release(ctx)
	}
	if out.err == nil && (out.lost || errors.Is(err, coord.ErrLost)) {
		if !out.lost {
			a.warn("%s was lost: %s", got, reason(err))
		}
		if h.onLoss != lossIgnore || !out.started {
			return exit(h.lost.code)
		}
	} else {
		a.released(got, err)
	}
	if out.err != nil {
		return out.err
	}
	return exit(out.code)
}

// reason is an error without the signature that complain and warn put before it.
func reason(err error) string { return strings.TrimPrefix(err.Error(), "coord: ") }

// released tells about a release that went wrong. The command was done by then,
// and under the hold, so that its status stands.
func (a *app) released(got *admission, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		a.warn("giving back %s: %s", got, reason(err))
	}
}

// await runs f and ends its ctx after the timeout or at a signal that ends the
// program. The signal wins: what f got all the same is returned beside it.
func await[T any](parent context.Context, signals *signals, timeout time.Duration, f func(context.Context) (T, error)) (T, os.Signal, error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	if timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, timeout)
		defer stop()
	}
	var (
		got  T
		err  error
		sig  os.Signal
		done = make(chan struct{})
	)
	go func() {
		defer close(done)
		got, err = f(ctx)
	}()
	for {
		select {
		case s := <-signals.c:
			if sig == nil && ends(s) {
				sig = s
				cancel(caught{s})
			}
			continue
		case <-done:
		}
		// One that is on its way already counts as having come in time.
		for sig == nil {
			select {
			case s := <-signals.c:
				if ends(s) {
					sig = s
				}
				continue
			default:
			}
			break
		}
		return got, sig, err
	}
}

// ended returns a ctx that has ended, for a release that must not wait.
func ended(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

// Variables that the command gets.
const (
	envName  = "COORD_NAME"
	envKind  = "COORD_KIND"
	envToken = "COORD_TOKEN"
)

// environment is the command's: ours, and what it runs under. The URL goes with
// it, so that a coord below this one uses the same service, but no password.
func (a *app) environment(h *holding, t target, got *admission) []string {
	ours := map[string]bool{envURL: true, envName: true, envKind: true, envToken: true}
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return ours[name]
	})
	env = append(env, envName+"="+got.name, envKind+"="+got.kind.String(), envToken+"="+strconv.FormatUint(got.token, 10))
	if !t.secret() || h.passURL {
		env = append(env, envURL+"="+t.url)
	}
	return env
}
