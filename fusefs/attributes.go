package fusefs

import (
	"math"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/layout"
)

const (
	defaultFileMode = 0o444
	defaultDirMode  = 0o555

	// forever is how long the kernel may cache what it knows of a tree that never changes.
	forever = 24 * time.Hour
	// rootTime is shorter: while the kernel has the root's attributes cached, stat of a
	// mountpoint does not notice that the daemon died.
	rootTime = time.Second

	blockSize = 512 // the unit of st_blocks
)

// attributes are those shared by all nodes of a mount.
type attributes struct {
	uid, gid          uint32
	fileMode, dirMode uint32
	modTime           time.Time
}

// mode is the permission bits of an option, or its default.
func mode(option, standard uint32) uint32 {
	if option == 0 {
		return standard
	}
	return option & 0o777
}

// attr describes a node.
func (f *filesystem) attr(id uint64, n node, out *fuse.Attr) {
	a := f.attrs
	*out = fuse.Attr{Ino: id, Nlink: 1, Mode: unix.S_IFREG | a.fileMode, Owner: fuse.Owner{Uid: a.uid, Gid: a.gid}}
	modTime := a.modTime
	switch {
	case n.isDir():
		out.Mode = unix.S_IFDIR | a.dirMode
		out.Nlink = uint32(2 + f.tree.subdirs(n))
	case n.kind == batchFile:
		setSize(out, f.batchSize(n))
		if n.form.Large() && f.path == direct {
			out.Blksize = uint32(f.request) // the read size of cat and cp
		}
	default:
		setSize(out, int64(len(f.document(n))))
	}
	if n.isControl() {
		modTime = time.Now()
	}
	out.SetTimes(&modTime, &modTime, &modTime)
}

// batchSize is the exact size of a batch file.
func (f *filesystem) batchSize(n node) int64 {
	if n.form == layout.JSON {
		slots, _ := f.catalog.Plan.Size(n.key.Shard, n.key.Epoch, n.key.Batch)
		return batchDocumentSize(slots, f.longest)
	}
	return f.catalog.Size(n.key, n.form)
}

// setSize sets a file's length, and its blocks for du. A batch too large for a file is
// shown with the largest possible size; opening it returns the error.
func setSize(out *fuse.Attr, size int64) {
	if size < 0 { // it wrapped around
		size = math.MaxInt64
	}
	out.Size = uint64(size)
	out.Blocks = (out.Size + blockSize - 1) / blockSize
}

// lifetime is how long the kernel may cache a node's name and attributes.
func lifetime(n node) (entry, attr time.Duration) {
	switch {
	case n.isControl():
		return forever, 0
	case n.kind == root:
		return forever, rootTime
	}
	return forever, forever
}
