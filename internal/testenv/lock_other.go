//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package testenv

// lockFile does nothing where the standard library has no file lock: test
// binaries may then build the same server twice at the same time, and each
// renames a whole one into place.
func lockFile(string) (unlock func(), err error) {
	return func() {}, nil
}
