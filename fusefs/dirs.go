package fusefs

import (
	"math"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// OpenDir opens nothing: a listing is a function of its offset. The kernel may cache it.
func (f *filesystem) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n, ok := f.tree.node(in.NodeId)
	if !ok {
		return fuse.ENOENT
	}
	if !n.isDir() {
		return fuse.ENOTDIR
	}
	out.OpenFlags = fuse.FOPEN_CACHE_DIR | fuse.FOPEN_KEEP_CACHE
	return fuse.OK
}

// ReadDir lists from an offset: 0 is ".", 1 is "..", i+2 is the tree's entry i.
func (f *filesystem) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	dir, ok := f.tree.node(in.NodeId)
	if !ok {
		return fuse.ENOENT
	}
	if !dir.isDir() {
		return fuse.ENOTDIR
	}
	for offset := in.Offset; ; offset++ {
		entry, ok := f.dirEntry(dir, offset)
		if !ok || !out.AddDirEntry(entry) {
			return fuse.OK
		}
	}
}

func (f *filesystem) dirEntry(dir node, offset uint64) (fuse.DirEntry, bool) {
	name, n := ".", dir
	switch {
	case offset == 1:
		name, n = "..", f.tree.parent(dir)
	case offset > math.MaxInt32: // no directory is that long, wherever a program seeks
		return fuse.DirEntry{}, false
	case offset > 1:
		var ok bool
		if name, n, ok = f.tree.entry(dir, int(offset-2)); !ok {
			return fuse.DirEntry{}, false
		}
	}
	entry := fuse.DirEntry{Name: name, Ino: f.tree.numbers.id(n), Mode: unix.S_IFREG, Off: offset + 1}
	if n.isDir() {
		entry.Mode = unix.S_IFDIR
	}
	return entry, true
}

// ReadDirPlus is disabled: it would compute the size of every batch for a plain ls.
func (f *filesystem) ReadDirPlus(<-chan struct{}, *fuse.ReadIn, *fuse.DirEntryList) fuse.Status {
	return fuse.ENOSYS
}

// ReleaseDir and FsyncDir have nothing to do.
func (f *filesystem) ReleaseDir(*fuse.ReleaseIn) {}

func (f *filesystem) FsyncDir(<-chan struct{}, *fuse.FsyncIn) fuse.Status { return fuse.OK }
