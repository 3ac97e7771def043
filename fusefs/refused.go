package fusefs

import "github.com/hanwen/go-fuse/v2/fuse"

type cancel = <-chan struct{}

// The mount is read-only, so the kernel sends none of these requests, unless root remounts
// it for writing. The methods refuse them anyway.

func (f *filesystem) SetAttr(cancel, *fuse.SetAttrIn, *fuse.AttrOut) fuse.Status { return fuse.EROFS }
func (f *filesystem) Mknod(cancel, *fuse.MknodIn, string, *fuse.EntryOut) fuse.Status {
	return fuse.EROFS
}
func (f *filesystem) Mkdir(cancel, *fuse.MkdirIn, string, *fuse.EntryOut) fuse.Status {
	return fuse.EROFS
}
func (f *filesystem) Unlink(cancel, *fuse.InHeader, string) fuse.Status         { return fuse.EROFS }
func (f *filesystem) Rmdir(cancel, *fuse.InHeader, string) fuse.Status          { return fuse.EROFS }
func (f *filesystem) Rename(cancel, *fuse.RenameIn, string, string) fuse.Status { return fuse.EROFS }
func (f *filesystem) Link(cancel, *fuse.LinkIn, string, *fuse.EntryOut) fuse.Status {
	return fuse.EROFS
}
func (f *filesystem) Create(cancel, *fuse.CreateIn, string, *fuse.CreateOut) fuse.Status {
	return fuse.EROFS
}
func (f *filesystem) Tmpfile(cancel, *fuse.CreateIn, *fuse.CreateOut) fuse.Status { return fuse.EROFS }
func (f *filesystem) Fallocate(cancel, *fuse.FallocateIn) fuse.Status             { return fuse.EROFS }
func (f *filesystem) SetXAttr(cancel, *fuse.SetXAttrIn, string, []byte) fuse.Status {
	return fuse.EROFS
}
func (f *filesystem) RemoveXAttr(cancel, *fuse.InHeader, string) fuse.Status    { return fuse.EROFS }
func (f *filesystem) Write(cancel, *fuse.WriteIn, []byte) (uint32, fuse.Status) { return 0, fuse.EROFS }
func (f *filesystem) Writev(cancel, *fuse.WriteIn, [][]byte) (uint32, fuse.Status) {
	return 0, fuse.EROFS
}
func (f *filesystem) Symlink(cancel, *fuse.InHeader, string, string, *fuse.EntryOut) fuse.Status {
	return fuse.EROFS
}

// After one ENOSYS the kernel does these by itself and never asks again: copying by reading
// and writing, locks among local processes, no holes, no ioctls, nothing to flush, and no
// listing that would compute the size of every batch for a plain ls.

func (f *filesystem) Flush(cancel, *fuse.FlushIn) fuse.Status                 { return fuse.ENOSYS }
func (f *filesystem) Fsync(cancel, *fuse.FsyncIn) fuse.Status                 { return fuse.ENOSYS }
func (f *filesystem) FsyncDir(cancel, *fuse.FsyncIn) fuse.Status              { return fuse.ENOSYS }
func (f *filesystem) Lseek(cancel, *fuse.LseekIn, *fuse.LseekOut) fuse.Status { return fuse.ENOSYS }
func (f *filesystem) Statx(cancel, *fuse.StatxIn, *fuse.StatxOut) fuse.Status { return fuse.ENOSYS }
func (f *filesystem) ReadDirPlus(cancel, *fuse.ReadIn, *fuse.DirEntryList) fuse.Status {
	return fuse.ENOSYS
}
func (f *filesystem) CopyFileRange(cancel, *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	return 0, fuse.ENOSYS
}
func (f *filesystem) GetLk(cancel, *fuse.LkIn, *fuse.LkOut) fuse.Status { return fuse.ENOSYS }
func (f *filesystem) SetLk(cancel, *fuse.LkIn) fuse.Status              { return fuse.ENOSYS }
func (f *filesystem) SetLkw(cancel, *fuse.LkIn) fuse.Status             { return fuse.ENOSYS }
func (f *filesystem) Ioctl(cancel, *fuse.IoctlIn, []byte, *fuse.IoctlOut, []byte) fuse.Status {
	return fuse.ENOSYS
}

// There are no links, no state per node or open directory, and no debug output.

func (f *filesystem) Readlink(cancel, *fuse.InHeader) ([]byte, fuse.Status) { return nil, fuse.EINVAL }
func (f *filesystem) Forget(uint64, uint64)                                 {}
func (f *filesystem) ReleaseDir(*fuse.ReleaseIn)                            {}
func (f *filesystem) SetDebug(bool)                                         {}
func (f *filesystem) String() string                                        { return fsType }
