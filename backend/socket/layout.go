//go:build linux || darwin

package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gocoord/coord/backend"
)

// layout is where things are. For the socket /run/app.sock:
//
//	/run/app.sock            the socket, published by the server
//	/run/app.sock.lock       whoever has its flock serves; never removed
//	/run/app.sock.d/         what the servers and clients keep
//	/run/app.sock.d/journal  what a successor has to know
//	/run/app.sock.d/m-…      one file for each client, which holds its flock
type layout struct {
	path string // of the socket
	mode fs.FileMode
}

func (l layout) sidecar() string { return l.path + ".lock" }
func (l layout) dir() string     { return l.path + ".d" }
func (l layout) journal() string { return filepath.Join(l.dir(), "journal") }
func (l layout) member(id memberID) string {
	return filepath.Join(l.dir(), memberPrefix+id.String())
}

// dirMode adds the right to search wherever there is one to read.
func (l layout) dirMode() fs.FileMode { return l.mode | l.mode>>2&0o111 }

// group reports whether others than the user may take part.
func (l layout) group() bool { return l.mode&0o060 != 0 }

// newLayout checks the path and its directory. A symbolic link at the path is
// followed, so that all who use it meet.
func newLayout(cfg config) (layout, error) {
	path, err := filepath.Abs(cfg.path)
	if err != nil {
		return layout{}, fmt.Errorf("%w: socket path %q: %w", backend.ErrInvalid, cfg.path, err)
	}
	if err := checkLength(path); err != nil {
		return layout{}, err
	}
	if fi, err := os.Lstat(path); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			return layout{}, fmt.Errorf("%w: the symbolic link %s leads nowhere (%w); remove it or make its target", backend.ErrInvalid, path, err)
		}
		path = target
		if err := checkLength(path); err != nil {
			return layout{}, err
		}
	}
	l := layout{path: path, mode: cfg.mode}
	return l, l.checkDir()
}

func checkLength(path string) error {
	if len(path) > maxPath {
		return fmt.Errorf("%w: the socket path %s has %d bytes, and the limit of this system is %d; use a shorter directory", backend.ErrInvalid, path, len(path), maxPath)
	}
	return nil
}

// checkDir refuses directories in which the files could not be relied upon.
func (l layout) checkDir() error {
	dir := filepath.Dir(l.path)
	fi, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: the directory %s of the socket does not exist; make it first (%w)", backend.ErrInvalid, dir, err)
	case errors.Is(err, fs.ErrPermission):
		return err
	case err != nil:
		return fmt.Errorf("%w: the directory %s of the socket: %w", backend.ErrInvalid, dir, err)
	case !fi.IsDir():
		return fmt.Errorf("%w: %s is not a directory", backend.ErrInvalid, dir)
	case fi.Mode().Perm()&0o002 != 0 && fi.Mode()&fs.ModeSticky == 0:
		return fmt.Errorf("%w: everybody may replace files in %s (mode %#o); use a directory of your own, or chmod o-w or +t it", backend.ErrInvalid, dir, fi.Mode().Perm())
	}
	if kind, err := networkFS(dir); err != nil {
		return fmt.Errorf("the file system of %s: %w", dir, err)
	} else if kind != "" {
		return fmt.Errorf("%w: %s is on %s, and a Unix socket works on one host only; use a local directory, or nfsfile:// for shared files", backend.ErrUnsupported, dir, kind)
	}
	return nil
}

// makeDir makes the directory of the journal and the member files.
func (l layout) makeDir() error {
	err := os.Mkdir(l.dir(), l.dirMode())
	switch {
	case err == nil:
		if err := os.Chmod(l.dir(), l.dirMode()|l.setgid()); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	fi, err := os.Lstat(l.dir())
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return fmt.Errorf("%w: %s is not a directory; it has to be one, or not to be there", backend.ErrInvalid, l.dir())
	}
	return l.checkOwner(l.dir(), fi)
}

// setgid makes new files belong to the group of the directory.
func (l layout) setgid() fs.FileMode {
	if l.group() {
		return fs.ModeSetgid
	}
	return 0
}

// openFile opens a file beside the socket, and makes it with exactly the mode
// that was asked for, whatever the umask, and never wider on the way.
func (l layout) openFile(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
		if err == nil {
			fi, err := f.Stat()
			if err == nil && !fi.Mode().IsRegular() {
				err = fmt.Errorf("%w: %s is not a regular file; it has to be one, or not to be there", backend.ErrInvalid, path)
			}
			if err == nil {
				err = l.checkOwner(path, fi)
			}
			if err != nil {
				_ = f.Close()
				return nil, err
			}
			return f, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		f, err = l.createFile(path)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// createFile makes a file that must not be there yet.
func (l layout) createFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, l.mode)
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(l.mode); err != nil {
		_ = f.Close()
		_ = os.Remove(path)
		return nil, err
	}
	return f, nil
}

// checkOwner keeps out files that somebody else put there first.
func (l layout) checkOwner(path string, fi fs.FileInfo) error {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	uid := os.Geteuid()
	if int(st.Uid) == uid || st.Uid == 0 || uid == 0 || l.group() {
		return nil
	}
	return fmt.Errorf("%w: %s belongs to the user with id %d, and this is %d; use another path, or mode=0660 for both", fs.ErrPermission, path, st.Uid, uid)
}

// What can be at the path of the socket.
type occupant uint8

const (
	nothing occupant = iota
	aSocket
	aFile // a regular one, by which another program says that it holds a lock
)

// occupied looks at what is at the path. Whatever no server can have put there
// is an error and stays untouched.
func (l layout) occupied() (occupant, error) {
	fi, err := os.Lstat(l.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nothing, nil
	case err != nil:
		return nothing, err
	}
	switch mode := fi.Mode(); {
	case mode&fs.ModeSocket != 0:
		return aSocket, l.checkOwner(l.path, fi)
	case mode.IsRegular():
		return aFile, nil
	default:
		return nothing, fmt.Errorf("%w: %s is %s and no socket; remove it or use another path", backend.ErrInvalid, l.path, kindOf(mode))
	}
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	default:
		return "a device"
	}
}
