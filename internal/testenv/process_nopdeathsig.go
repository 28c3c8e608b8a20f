//go:build !linux && !freebsd

package testenv

import "os/exec"

// endWithParent does nothing here: the system cannot tie a child's life to its
// parent's, so only the cleanup of the test ends it.
func endWithParent(*exec.Cmd) {}
