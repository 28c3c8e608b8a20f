package socket

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const maxPath = 103 // bytes in sun_path without its NUL

// networkFS names the network file system that dir is on, or "".
func networkFS(dir string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", err
	}
	if st.Flags&unix.MNT_LOCAL != 0 {
		return "", nil
	}
	return unix.ByteSliceToString(st.Fstypename[:]), nil
}

// bootID changes when the host is started. No process outlives it.
func bootID() string {
	t, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return ""
	}
	return strconv.FormatInt(t.Sec, 10)
}

// peerOf returns who is at the other end.
func peerOf(c *net.UnixConn) (pid, uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var cred *unix.Xucred
	if e := raw.Control(func(fd uintptr) {
		if cred, err = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED); err == nil {
			pid, err = unix.GetsockoptInt(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERPID)
		}
	}); e != nil {
		err = e
	}
	if err != nil {
		return 0, 0, fmt.Errorf("the peer's credentials: %w", err)
	}
	return pid, int(cred.Uid), nil
}

// listen binds a listening socket to a name in dir. The umask decides its mode
// until it is changed; the directory keeps strangers out for that long, and
// the peers' credentials are checked, too.
func listen(dir, name string, _ os.FileMode) (*net.UnixListener, error) {
	path := filepath.Join(dir, name)
	if err := checkLength(path); err != nil {
		return nil, err
	}
	return listenUnix(net.ListenConfig{Control: func(string, string, syscall.RawConn) error { return nil }}, path)
}
