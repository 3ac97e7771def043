package tier

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/owned"
)

// Place describes how a directory suits a tier.
type Place struct {
	FileSystem string // such as ext4
	Local      bool   // as far as is known, it is neither in memory nor on another machine
	Direct     bool   // files can be read and written past the page cache
	Free       int64  // bytes that this user may still write
	Used       int64  // bytes of the extents of all datasets when one was last added or removed
}

// A fileSystem is a file system with a known name. It may not be a local disk.
type fileSystem struct {
	name      string
	elsewhere bool
}

var fileSystems = map[int64]fileSystem{
	unix.TMPFS_MAGIC: {"tmpfs", true}, unix.RAMFS_MAGIC: {"ramfs", true},
	unix.NFS_SUPER_MAGIC: {"NFS", true}, unix.SMB2_SUPER_MAGIC: {"SMB", true},
	unix.CIFS_SUPER_MAGIC: {"SMB", true}, unix.CEPH_SUPER_MAGIC: {"Ceph", true},
	unix.V9FS_MAGIC: {"9P", true}, unix.FUSE_SUPER_MAGIC: {"FUSE", true}, 0x0bd00bd0: {"Lustre", true},
	unix.EXT4_SUPER_MAGIC: {"ext4", false}, unix.XFS_SUPER_MAGIC: {"xfs", false},
	unix.BTRFS_SUPER_MAGIC: {"btrfs", false}, unix.F2FS_SUPER_MAGIC: {"f2fs", false},
	unix.OVERLAYFS_SUPER_MAGIC: {"overlay", false}, 0x2fc12fc1: {"ZFS", false},
}

// Examine describes a directory, without leaving anything in it. The error says why no tier can be
// there.
func Examine(dir string) (p Place, err error) {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s: not a directory", dir)
	}
	if err == nil {
		err = owned.Check(dir, info)
	}
	if err != nil {
		return p, err
	}
	f, err := os.Open(dir)
	if err != nil {
		return p, err
	}
	defer f.Close()
	if err := makesUnnamed(f, 0); err != nil {
		return p, err
	}
	p.Direct = makesUnnamed(f, unix.O_DIRECT) == nil
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return p, err
	}
	p.Free = int64(st.Bavail) * st.Bsize
	known := fileSystems[int64(st.Type)]
	p.Local = !known.elsewhere
	p.FileSystem = cmp.Or(known.name, fmt.Sprintf("file system %#x", st.Type))
	if used, _, err := owned.Open(filepath.Join(dir, "used"), os.O_RDONLY); err == nil {
		defer used.Close()
		p.Used = counterIn(used)
	}
	return p, nil
}

// makesUnnamed returns an error if a directory cannot have unnamed files. With named ones, killed
// processes would leave incomplete files.
func makesUnnamed(dir *os.File, flags int) error {
	fd, err := unix.Openat(int(dir.Fd()), ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC|flags, 0o600)
	switch err {
	case nil:
		return unix.Close(fd)
	case unix.EOPNOTSUPP, unix.EISDIR, unix.EINVAL:
		return fmt.Errorf("%s: its file system makes no unnamed files; choose a directory on ext4, xfs, btrfs or tmpfs (%w)", dir.Name(), err)
	}
	return &os.PathError{Op: "write to", Path: dir.Name(), Err: err}
}
