//go:build linux || darwin

package socket

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/gocoord/coord/backend"
)

// lock takes the flock of f unless somebody has it. It is let go of by closing
// f, and never by LOCK_UN: that would unlock every copy of the descriptor.
func lock(f *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, fmt.Errorf("%w: flock of %s: %w", backend.ErrUnsupported, f.Name(), err)
		}
	}
}

// An identity tells a file from another one that has the same name later.
type identity struct{ dev, ino uint64 }

func identify(f *os.File) (identity, error) {
	fi, err := f.Stat()
	if err != nil {
		return identity{}, err
	}
	return identityOf(fi), nil
}

func identityOf(fi os.FileInfo) identity {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return identity{}
	}
	return identity{uint64(st.Dev), st.Ino} //nolint:unconvert // Dev is an int32 on macOS
}

// is reports whether the file is the one at path.
func (id identity) is(path string) bool {
	fi, err := os.Lstat(path)
	return err == nil && identityOf(fi) == id
}

// lockAt opens the file at path and takes its flock. It looks whether the file
// is still at the path afterwards, so that nobody goes on with one that was
// removed or replaced in between. It returns nil if somebody else has it.
func (l layout) lockAt(path string) (*os.File, identity, error) {
	for {
		f, err := l.openFile(path)
		if err != nil {
			return nil, identity{}, err
		}
		got, err := lock(f)
		var id identity
		if err == nil && got {
			id, err = identify(f)
		}
		if err == nil && got && id.is(path) {
			return f, id, nil
		}
		_ = f.Close()
		if err != nil || !got {
			return nil, identity{}, err
		}
	}
}
