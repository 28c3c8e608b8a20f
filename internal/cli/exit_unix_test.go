//go:build unix

package cli

import (
	"io/fs"
	"os/exec"
	"syscall"
	"testing"
)

// TestCannotRun has what the system says of a command that it does not start.
// A shortage of processes cannot be made for the built program alone.
func TestCannotRun(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{exec.ErrNotFound, exitNotFound},
		{&fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.ENOENT}, exitNotFound},
		{&fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.EAGAIN}, exitSystem},
		{&fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.ENOMEM}, exitSystem},
		{&fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.EACCES}, exitCannotRun},
		{&fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.EISDIR}, exitCannotRun},
	} {
		if got := status(cannotRun("x", c.err)); got != c.want {
			t.Errorf("%v: status %d, want %d", c.err, got, c.want)
		}
	}
}
