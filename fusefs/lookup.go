package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Lookup finds a name. A missing name is answered with node id 0, so that the kernel caches
// its absence; below .batchfs, the kernel asks each time.
func (f *filesystem) Lookup(_ <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	dir, ok := f.tree.node(header.NodeId)
	if !ok {
		return fuse.ENOENT
	}
	if !dir.isDir() {
		return fuse.ENOTDIR
	}
	n, ok := f.tree.lookup(dir, name)
	if !ok && dir.kind == controlDir {
		return fuse.ENOENT
	}
	if !ok {
		out.NodeId = 0
		out.SetEntryTimeout(forever)
		return fuse.OK
	}
	out.NodeId = f.tree.numbers.id(n)
	entry, attr := lifetime(n)
	out.SetEntryTimeout(entry)
	out.SetAttrTimeout(attr)
	f.attr(out.NodeId, n, &out.Attr)
	return fuse.OK
}

// Forget does nothing: the daemon keeps no state per node.
func (f *filesystem) Forget(uint64, uint64) {}

// GetAttr describes a node. An open file below .batchfs is described as it was when opened.
func (f *filesystem) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	n, ok := f.tree.node(in.NodeId)
	if !ok {
		return fuse.ENOENT
	}
	_, attr := lifetime(n)
	out.SetTimeout(attr)
	f.attr(in.NodeId, n, &out.Attr)
	if n.isControl() && in.Flags()&fuse.FUSE_GETATTR_FH != 0 {
		if h, ok := f.handles.get(in.Fh()); ok {
			setSize(&out.Attr, int64(len(h.data)))
		}
	}
	return fuse.OK
}

// Statx is not needed: it has nothing to add to GetAttr. The kernel asks only once.
func (f *filesystem) Statx(<-chan struct{}, *fuse.StatxIn, *fuse.StatxOut) fuse.Status {
	return fuse.ENOSYS
}

// Access is called if the kernel does not check modes itself: the owner of the mount may do
// anything but write.
func (f *filesystem) Access(_ <-chan struct{}, in *fuse.AccessIn) fuse.Status {
	if in.Mask&unix.W_OK != 0 {
		return fuse.EROFS
	}
	return fuse.OK
}

// Readlink is for links, and there are none.
func (f *filesystem) Readlink(<-chan struct{}, *fuse.InHeader) ([]byte, fuse.Status) {
	return nil, fuse.EINVAL
}
