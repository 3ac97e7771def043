package fusefs

import "github.com/hanwen/go-fuse/v2/fuse"

// refused has the requests that a filesystem does not serve.
type refused struct{}

type cancel = <-chan struct{}

// The mount is read-only, so the kernel sends none of these requests, unless root remounts
// it for writing.

func (refused) SetAttr(cancel, *fuse.SetAttrIn, *fuse.AttrOut) fuse.Status         { return fuse.EROFS }
func (refused) Mknod(cancel, *fuse.MknodIn, string, *fuse.EntryOut) fuse.Status    { return fuse.EROFS }
func (refused) Mkdir(cancel, *fuse.MkdirIn, string, *fuse.EntryOut) fuse.Status    { return fuse.EROFS }
func (refused) Unlink(cancel, *fuse.InHeader, string) fuse.Status                  { return fuse.EROFS }
func (refused) Rmdir(cancel, *fuse.InHeader, string) fuse.Status                   { return fuse.EROFS }
func (refused) Rename(cancel, *fuse.RenameIn, string, string) fuse.Status          { return fuse.EROFS }
func (refused) Link(cancel, *fuse.LinkIn, string, *fuse.EntryOut) fuse.Status      { return fuse.EROFS }
func (refused) Create(cancel, *fuse.CreateIn, string, *fuse.CreateOut) fuse.Status { return fuse.EROFS }
func (refused) Tmpfile(cancel, *fuse.CreateIn, *fuse.CreateOut) fuse.Status        { return fuse.EROFS }
func (refused) Fallocate(cancel, *fuse.FallocateIn) fuse.Status                    { return fuse.EROFS }
func (refused) SetXAttr(cancel, *fuse.SetXAttrIn, string, []byte) fuse.Status      { return fuse.EROFS }
func (refused) RemoveXAttr(cancel, *fuse.InHeader, string) fuse.Status             { return fuse.EROFS }
func (refused) Write(cancel, *fuse.WriteIn, []byte) (uint32, fuse.Status)          { return 0, fuse.EROFS }
func (refused) Writev(cancel, *fuse.WriteIn, [][]byte) (uint32, fuse.Status)       { return 0, fuse.EROFS }
func (refused) Symlink(cancel, *fuse.InHeader, string, string, *fuse.EntryOut) fuse.Status {
	return fuse.EROFS
}

// After one ENOSYS the kernel handles these requests by itself and never asks again: it copies by
// reading and writing, keeps locks among local processes, and assumes that there are no holes, no
// ioctls and nothing to flush. It does not list names together with attributes, which would compute
// the size of every batch for a plain ls.

func (refused) Flush(cancel, *fuse.FlushIn) fuse.Status                          { return fuse.ENOSYS }
func (refused) Fsync(cancel, *fuse.FsyncIn) fuse.Status                          { return fuse.ENOSYS }
func (refused) FsyncDir(cancel, *fuse.FsyncIn) fuse.Status                       { return fuse.ENOSYS }
func (refused) Lseek(cancel, *fuse.LseekIn, *fuse.LseekOut) fuse.Status          { return fuse.ENOSYS }
func (refused) Statx(cancel, *fuse.StatxIn, *fuse.StatxOut) fuse.Status          { return fuse.ENOSYS }
func (refused) ReadDirPlus(cancel, *fuse.ReadIn, *fuse.DirEntryList) fuse.Status { return fuse.ENOSYS }
func (refused) CopyFileRange(cancel, *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	return 0, fuse.ENOSYS
}
func (refused) GetLk(cancel, *fuse.LkIn, *fuse.LkOut) fuse.Status { return fuse.ENOSYS }
func (refused) SetLk(cancel, *fuse.LkIn) fuse.Status              { return fuse.ENOSYS }
func (refused) SetLkw(cancel, *fuse.LkIn) fuse.Status             { return fuse.ENOSYS }
func (refused) Ioctl(cancel, *fuse.IoctlIn, []byte, *fuse.IoctlOut, []byte) fuse.Status {
	return fuse.ENOSYS
}

// There are no links, no state per node or open directory, and no debug output.

func (refused) Readlink(cancel, *fuse.InHeader) ([]byte, fuse.Status) { return nil, fuse.EINVAL }
func (refused) Forget(uint64, uint64)                                 {}
func (refused) ReleaseDir(*fuse.ReleaseIn)                            {}
func (refused) SetDebug(bool)                                         {}
func (refused) String() string                                        { return fsType }
