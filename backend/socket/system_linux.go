package socket

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const maxPath = 107 // bytes in sun_path without its NUL

// networks are the file systems that other hosts may share, by the magic
// number of statfs(2).
var networks = map[int64]string{
	0x6969: "NFS", 0x517b: "SMB", 0xff534d42: "CIFS", 0xfe534d42: "SMB2", 0x65735546: "FUSE", 0x01021997: "9P",
	0x5346414f: "AFS", 0x00c36400: "Ceph", 0x73757245: "Coda", 0x7461636f: "OCFS2", 0x01161970: "GFS2",
	0x0bd00bd0: "Lustre", 0x47504653: "GPFS", 0x19830326: "BeeGFS", 0x6b414653: "AFS", 0xaad7aaea: "PanFS", 0x786f4256: "a VirtualBox share",
}

// networkFS names the network file system that dir is on, or "".
func networkFS(dir string) (string, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return "", err
	}
	return networks[int64(st.Type)&0xffffffff], nil //nolint:unconvert // Type is an int32 on some machines
}

// bootID changes when the host is started. No process outlives it.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// peerOf returns who is at the other end: for a client, who called listen.
func peerOf(c *net.UnixConn) (pid, uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var cred *syscall.Ucred
	if e := raw.Control(func(fd uintptr) {
		cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); e != nil {
		err = e
	}
	if err != nil {
		return 0, 0, fmt.Errorf("the peer's credentials: %w", err)
	}
	return int(cred.Pid), int(cred.Uid), nil
}

// listen binds a listening socket to a name in dir, with the given mode less
// the umask: never wider, not for a moment. The name is reached through the
// directory's descriptor, since it may be longer than a socket's may be.
func listen(dir, name string, mode os.FileMode) (*net.UnixListener, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close() //nolint:errcheck // nothing was written
	path := fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), name)
	if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, os.ErrNotExist) {
		path = filepath.Join(dir, name) // no /proc
	}
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if e := c.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), uint32(mode)) }); e != nil {
			return e
		}
		return err
	}}
	return listenUnix(lc, path)
}
