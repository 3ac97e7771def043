package tier

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/owned"
)

// Place is what a directory offers to a tier.
type Place struct {
	FileSystem string // such as ext4
	Local      bool   // it is not known to be in memory or on another machine
	Direct     bool   // files can be read and written past the page cache
	Free       int64  // bytes that this user may still write
	Used       int64  // bytes that the extents of all datasets took when one was last added or removed
}

// elsewhere are file systems that are no local disk.
var elsewhere = map[int64]string{
	unix.TMPFS_MAGIC: "tmpfs", unix.RAMFS_MAGIC: "ramfs", unix.NFS_SUPER_MAGIC: "NFS", unix.SMB2_SUPER_MAGIC: "SMB",
	unix.CIFS_SUPER_MAGIC: "SMB", unix.CEPH_SUPER_MAGIC: "Ceph", unix.V9FS_MAGIC: "9P", unix.FUSE_SUPER_MAGIC: "FUSE",
	0x0bd00bd0: "Lustre",
}

var disks = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
	unix.F2FS_SUPER_MAGIC: "f2fs", unix.OVERLAYFS_SUPER_MAGIC: "overlay", 0x2fc12fc1: "ZFS",
}

// Examine returns what a directory offers, without leaving anything in it. The error says why no
// tier can be there.
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
	away, isAway := elsewhere[int64(st.Type)]
	disk, known := disks[int64(st.Type)]
	switch p.Local = !isAway; {
	case isAway:
		p.FileSystem = away
	case known:
		p.FileSystem = disk
	default:
		p.FileSystem = fmt.Sprintf("file system %#x", st.Type)
	}
	if used, _, err := owned.Open(filepath.Join(dir, "used"), os.O_RDONLY); err == nil {
		defer used.Close()
		p.Used = counterIn(used)
	}
	return p, nil
}

// makesUnnamed returns an error if a directory can have no files without names. With others,
// processes that are killed would leave incomplete files.
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
