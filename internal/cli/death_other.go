//go:build unix && !linux && !freebsd

package cli

import "syscall"

// dieWithParent has nothing to ask the kernel for here; the leash is all there
// is.
func dieWithParent(*syscall.SysProcAttr) {}
