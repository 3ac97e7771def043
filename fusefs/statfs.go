package fusefs

import "github.com/hanwen/go-fuse/v2/fuse"

// statBlock is the unit in which df counts.
const statBlock = 4096

// StatFs reports the memory of the mount: the size is the limit, and the used space is what
// batches and the index take now. Inodes are not counted, because a file system that is
// always out of free inodes would trigger monitoring alerts.
func (f *filesystem) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	total, free, _ := f.src.Usage()
	*out = fuse.StatfsOut{
		Bsize: statBlock, Frsize: statBlock, NameLen: 255,
		Blocks: uint64(max(total, 0)) / statBlock,
		Bfree:  uint64(max(free, 0)) / statBlock,
	}
	out.Bavail = out.Bfree
	return fuse.OK
}
