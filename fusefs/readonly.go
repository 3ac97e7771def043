package fusefs

import "github.com/hanwen/go-fuse/v2/fuse"

// The mount is read-only, so the kernel sends none of these requests. The methods refuse
// them anyway.

func (f *filesystem) SetAttr(<-chan struct{}, *fuse.SetAttrIn, *fuse.AttrOut) fuse.Status {
	return fuse.EROFS
}

func (f *filesystem) Mknod(<-chan struct{}, *fuse.MknodIn, string, *fuse.EntryOut) fuse.Status {
	return fuse.EROFS
}

func (f *filesystem) Mkdir(<-chan struct{}, *fuse.MkdirIn, string, *fuse.EntryOut) fuse.Status {
	return fuse.EROFS
}

func (f *filesystem) Unlink(<-chan struct{}, *fuse.InHeader, string) fuse.Status { return fuse.EROFS }

func (f *filesystem) Rmdir(<-chan struct{}, *fuse.InHeader, string) fuse.Status { return fuse.EROFS }

func (f *filesystem) Rename(<-chan struct{}, *fuse.RenameIn, string, string) fuse.Status {
	return fuse.EROFS
}

func (f *filesystem) Link(<-chan struct{}, *fuse.LinkIn, string, *fuse.EntryOut) fuse.Status {
	return fuse.EROFS
}

func (f *filesystem) Symlink(<-chan struct{}, *fuse.InHeader, string, string, *fuse.EntryOut) fuse.Status {
	return fuse.EROFS
}

func (f *filesystem) Create(<-chan struct{}, *fuse.CreateIn, string, *fuse.CreateOut) fuse.Status {
	return fuse.EROFS
}

func (f *filesystem) Tmpfile(<-chan struct{}, *fuse.CreateIn, *fuse.CreateOut) fuse.Status {
	return fuse.EROFS
}

func (f *filesystem) Write(<-chan struct{}, *fuse.WriteIn, []byte) (uint32, fuse.Status) {
	return 0, fuse.EROFS
}

func (f *filesystem) Writev(<-chan struct{}, *fuse.WriteIn, [][]byte) (uint32, fuse.Status) {
	return 0, fuse.EROFS
}

func (f *filesystem) Fallocate(<-chan struct{}, *fuse.FallocateIn) fuse.Status { return fuse.EROFS }

func (f *filesystem) SetXAttr(<-chan struct{}, *fuse.SetXAttrIn, string, []byte) fuse.Status {
	return fuse.EROFS
}

func (f *filesystem) RemoveXAttr(<-chan struct{}, *fuse.InHeader, string) fuse.Status {
	return fuse.EROFS
}

// The kernel does the following itself after one ENOSYS: copying by reading and writing,
// and locks among local processes.

func (f *filesystem) CopyFileRange(<-chan struct{}, *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	return 0, fuse.ENOSYS
}

func (f *filesystem) GetLk(<-chan struct{}, *fuse.LkIn, *fuse.LkOut) fuse.Status { return fuse.ENOSYS }

func (f *filesystem) SetLk(<-chan struct{}, *fuse.LkIn) fuse.Status { return fuse.ENOSYS }

func (f *filesystem) SetLkw(<-chan struct{}, *fuse.LkIn) fuse.Status { return fuse.ENOSYS }

// Ioctl supports none; the kernel returns ENOTTY.
func (f *filesystem) Ioctl(<-chan struct{}, *fuse.IoctlIn, []byte, *fuse.IoctlOut, []byte) fuse.Status {
	return fuse.ENOSYS
}
