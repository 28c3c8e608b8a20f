//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package testenv

import (
	"errors"
	"os"
	"syscall"
)

// lockFile waits for the lock on the file at path, which another process may
// hold. The kernel lets go of it when a process ends, however that ends.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}
