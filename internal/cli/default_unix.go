//go:build unix

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/gocoord/coord/backend"
)

const (
	socketScheme = "socket"
	socketName   = "coord.sock"
)

// defaultURL names a socket that the processes of one user on this host have in
// common. It makes its directory where the system has none for such things.
func defaultURL() (string, error) {
	if _, ok := backend.Lookup(socketScheme); !ok {
		return "", usage("no service is named, and this coord has no socket backend for a default; give --url or set %s", envURL)
	}
	dir, err := runtimeDir()
	if err != nil {
		return "", &exitError{exitUnavailable, fmt.Errorf("no service is named, and the default has no place: %w; give --url or set %s", err, envURL)}
	}
	return pathURL(socketScheme, filepath.Join(dir, socketName)), nil
}

// runtimeDir is the user's own directory for sockets. Nobody else may be able
// to write to it, or they could offer a server of their own.
func runtimeDir() (string, error) {
	if dir, ok := getenv("XDG_RUNTIME_DIR"); ok && filepath.IsAbs(dir) {
		// A wrong one is common, after su for example, and then no reason to fail.
		if private(dir) == nil {
			return dir, nil
		}
	}
	dir := filepath.Join(os.TempDir(), "coord-"+strconv.Itoa(os.Getuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return dir, private(dir)
}

// private reports what makes dir no private directory of this user.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	case !ok || int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user", dir)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s has mode %04o, so that others may write to it; chmod 700 it", dir, info.Mode().Perm())
	}
	return nil
}

// pathURL makes the URL of a path.
func pathURL(scheme, path string) string {
	var b strings.Builder
	b.WriteString(scheme + "://")
	for _, c := range []byte(path) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("/-_.~+,=:", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
