//go:build linux || freebsd

package testenv

import (
	"os/exec"
	"syscall"
)

// endWithParent has the kernel kill the child when this process dies, even
// when it is killed and runs no cleanup.
func endWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}
