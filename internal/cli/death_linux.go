package cli

import "syscall"

// dieWithParent has the kernel kill the process when coord dies, however that
// happens.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
