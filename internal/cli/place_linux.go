package cli

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// fileSystems are the kinds that one meets, by what statfs says.
var fileSystems = map[uint32]struct {
	name   string
	remote bool
}{
	unix.EXT4_SUPER_MAGIC:      {"ext4", false},
	unix.XFS_SUPER_MAGIC:       {"xfs", false},
	unix.BTRFS_SUPER_MAGIC:     {"btrfs", false},
	unix.TMPFS_MAGIC:           {"tmpfs", false},
	unix.OVERLAYFS_SUPER_MAGIC: {"overlay", false},
	0x2fc12fc1:                 {"zfs", false},
	unix.NFS_SUPER_MAGIC:       {"nfs", true},
	unix.CIFS_SUPER_MAGIC:      {"cifs", true},
	unix.SMB2_SUPER_MAGIC:      {"smb2", true},
	unix.SMB_SUPER_MAGIC:       {"smb", true},
	unix.FUSE_SUPER_MAGIC:      {"fuse", true},
	unix.V9FS_MAGIC:            {"9p", true},
	unix.AFS_SUPER_MAGIC:       {"afs", true},
	unix.CEPH_SUPER_MAGIC:      {"ceph", true},
	0x0bd00bd0:                 {"lustre", true},
	0x47504653:                 {"gpfs", true},
}

// fileSystem names the kind of file system that dir is on, and tells whether
// other hosts may share it.
func fileSystem(dir string) (kind string, remote bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", false
	}
	magic := uint32(st.Type) // of another width on some machines
	if k, ok := fileSystems[magic]; ok {
		return k.name, k.remote
	}
	return fmt.Sprintf("a file system with the number %#x", magic), false
}

func writable(dir string) error { return unix.Access(dir, unix.W_OK|unix.X_OK) }
