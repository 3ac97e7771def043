package fusefs

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/layout"
)

// A filesystem answers the kernel's requests. It inherits no method from go-fuse, so that if
// go-fuse renames one, that is a compile error rather than silently "not supported".
type filesystem struct {
	refused
	src       source
	catalog   *engine.Catalog
	longest   int // length of the longest path in documents
	options   Options
	tree      *tree
	path      string // how large forms are read
	viaDaemon uint32 // open flags of large files that the daemon serves
	files     openFiles
	failures  failures
	handles   sync.Map // *openFile by uint64
	lastFh    atomic.Uint64
	opens     atomic.Int64 // requests, except for files below .batchfs: observing a
	reads     atomic.Int64 // mount must not change its figures
	request   int          // size of the largest read, in bytes
	alive     func() bool  // reports whether the kernel still waits for answers

	dataset, classes []byte // documents that never change
}

var _ fuse.RawFileSystem = (*filesystem)(nil)

// newFilesystem builds the tree over a source.
func newFilesystem(src source, o Options, path string) (*filesystem, error) {
	c := src.Catalog()
	classes := dataset.ClassesText(c.Dataset.Classes)
	all := c.Options.Epochs
	p := plan{shards: c.Options.Shards, epochs: all, listed: min(cmp.Or(o.Epochs, all), all), most: c.MaxBatches, batches: c.Plan.Batches}
	if o.OnlyLocal {
		p.first, p.shards = src.ShardsHere()
	}
	has := c.Options.Extent()
	o.List = slices.Clone(o.List)
	for i, f := range o.List {
		ext := o.ListNames.Ext(f)
		form, known := has.Names().Parse(ext)
		if !known || !has.Has(form) {
			return nil, &option.Error{Field: "list", Rule: "of forms that the mount has", Value: ext}
		}
		o.List[i] = form
	}
	if o.ListTargets {
		o.List = append(o.List, has.Forms()...)
	}
	t, err := newTree(p, o.List, classes != nil, src.HasGPU(), has)
	if err != nil {
		return nil, err
	}
	return &filesystem{
		src: src, catalog: c, longest: longestPath(c.Dataset), options: o, tree: t, path: path, viaDaemon: fuse.FOPEN_DIRECT_IO,
		files:   openFiles{log: o.Logger, byNode: map[uint64]*openFile{}},
		request: smallRequest, alive: func() bool { return true },
		dataset: datasetJSON(c), classes: classes,
	}, nil
}

// Init is called after the FUSE handshake, before the first request.
func (f *filesystem) Init(s *fuse.Server) {
	if f.path == passthrough {
		f.files.kernel = s
	}
	f.adapt(s.KernelSettings().Flags64())
}

// adapt sends large files through the page cache on kernels that cannot share a mapping of
// a file that bypasses it: mapping has to work, if more slowly.
func (f *filesystem) adapt(kernel uint64) {
	if kernel&fuse.CAP_DIRECT_IO_ALLOW_MMAP == 0 {
		f.viaDaemon = 0
		f.options.Logger.Info("batches go through the page cache: this kernel cannot map them otherwise (Linux 6.6 can)")
	}
}

// OnUnmount is called after the last request. The daemon serves no reader of the files that are
// still open: the mount was aborted, or is gone.
func (f *filesystem) OnUnmount() {
	f.handles.Range(func(fh, _ any) bool {
		f.Release(nil, &fuse.ReleaseIn{Fh: fh.(uint64)})
		return true
	})
}

const (
	// forever is how long the kernel may cache what it knows about a tree that never changes.
	forever = 24 * time.Hour
	// rootTime is shorter: while the kernel has the root's attributes cached, stat of a
	// mountpoint does not notice that the daemon died.
	rootTime = time.Second
)

// lifetime is how long the kernel may cache a node's attributes.
func lifetime(n node) time.Duration {
	switch {
	case n.isControl():
		return 0
	case n.kind == root:
		return rootTime
	}
	return forever
}

func (f *filesystem) attr(id uint64, n node, out *fuse.Attr) {
	o := &f.options
	*out = fuse.Attr{Ino: id, Nlink: 1, Mode: unix.S_IFREG | o.FileMode, Owner: fuse.Owner{Uid: o.UID, Gid: o.GID}}
	modTime := f.catalog.Dataset.ModTime
	switch {
	case n.isDir():
		out.Mode = unix.S_IFDIR | o.DirMode
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
	out.Blocks = (out.Size + 511) / 512
}

func (f *filesystem) dir(id uint64) (node, fuse.Status) {
	n, ok := f.tree.node(id)
	switch {
	case !ok:
		return n, fuse.ENOENT
	case !n.isDir():
		return n, fuse.ENOTDIR
	}
	return n, fuse.OK
}

// Lookup finds a name. A missing name is answered with node id 0, so that the kernel caches
// its absence; below .batchfs, the kernel asks each time.
func (f *filesystem) Lookup(_ <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	dir, st := f.dir(header.NodeId)
	if !st.Ok() {
		return st
	}
	n, ok := f.tree.lookup(dir, name)
	if !ok && dir.kind == controlDir {
		return fuse.ENOENT
	}
	out.NodeId = 0
	out.SetEntryTimeout(forever)
	if ok {
		out.NodeId = f.tree.numbers.id(n)
		out.SetAttrTimeout(lifetime(n))
		f.attr(out.NodeId, n, &out.Attr)
	}
	return fuse.OK
}

// GetAttr describes a node. An open file below .batchfs is described as it was when opened.
func (f *filesystem) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	n, ok := f.tree.node(in.NodeId)
	if !ok {
		return fuse.ENOENT
	}
	out.SetTimeout(lifetime(n))
	f.attr(in.NodeId, n, &out.Attr)
	if n.isControl() && in.Flags()&fuse.FUSE_GETATTR_FH != 0 {
		if h, ok := f.handle(in.Fh()); ok {
			setSize(&out.Attr, int64(len(h.data)))
		}
	}
	return fuse.OK
}

// Access is called if the kernel does not check modes itself: the owner of the mount may do
// anything but write.
func (f *filesystem) Access(_ <-chan struct{}, in *fuse.AccessIn) fuse.Status {
	if in.Mask&unix.W_OK != 0 {
		return fuse.EROFS
	}
	return fuse.OK
}

// OpenDir opens nothing: a listing is a function of its offset. The kernel may cache it.
func (f *filesystem) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	out.OpenFlags = fuse.FOPEN_CACHE_DIR | fuse.FOPEN_KEEP_CACHE
	_, st := f.dir(in.NodeId)
	return st
}

// ReadDir lists from an offset: 0 is ".", 1 is "..", i+2 is the tree's entry i.
func (f *filesystem) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	dir, st := f.dir(in.NodeId)
	if !st.Ok() {
		return st
	}
	for offset := in.Offset; ; offset++ {
		entry, ok := f.dirEntry(dir, offset)
		if !ok || !out.AddDirEntry(entry) {
			return fuse.OK
		}
	}
}

func (f *filesystem) dirEntry(dir node, offset uint64) (fuse.DirEntry, bool) {
	name, n, ok := ".", dir, true
	switch {
	case offset == 1:
		name, n = "..", f.tree.parent(dir)
	case offset > math.MaxInt32: // no directory is that long, wherever a program seeks
		ok = false
	case offset > 1:
		name, n, ok = f.tree.entry(dir, int(offset-2))
	}
	entry := fuse.DirEntry{Name: name, Ino: f.tree.numbers.id(n), Mode: unix.S_IFREG, Off: offset + 1}
	if n.isDir() {
		entry.Mode = unix.S_IFDIR
	}
	return entry, ok
}

// StatFs reports the memory of the mount: the size is the limit, and the used space is what
// batches and the index take now. Inodes are not counted, because a file system that is
// always out of free inodes would trigger monitoring alerts.
func (f *filesystem) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	const unit = 4096
	total, free, _ := f.src.Usage()
	*out = fuse.StatfsOut{Bsize: unit, Frsize: unit, NameLen: 255, Blocks: uint64(max(total, 0)) / unit}
	out.Bfree = uint64(max(free, 0)) / unit
	out.Bavail = out.Bfree
	return fuse.OK
}

// attributes are the extended attributes that every batch file has, in the order of listxattr. They
// describe the batch's tensor: in the file's own layout if the file holds the tensor, otherwise in
// the mount's. They are formatted as in the batch's .json, except the shape: "32,375,500,3".
var attributes = []struct {
	name string
	of   func(f *filesystem, n node, s layout.Spec) string
}{
	{"user.batchfs.shape", func(_ *filesystem, n node, s layout.Spec) string {
		return strings.Trim(strings.ReplaceAll(fmt.Sprint(s.In(n.form.OrderOf(s.Order)).Shape()), " ", ","), "[]")
	}},
	{"user.batchfs.dtype", func(_ *filesystem, _ node, s layout.Spec) string { return s.DType.String() }},
	{"user.batchfs.layout", func(_ *filesystem, n node, s layout.Spec) string { return n.form.OrderOf(s.Order).String() }},
	{"user.batchfs.valid", func(f *filesystem, n node, _ layout.Spec) string { return strconv.Itoa(f.catalog.Valid(n.key)) }},
}

// readyAttribute makes a batch begin, so that an open that follows need not wait as long. Its value
// is 1 if the batch is made already, otherwise 0. It is not listed, so that a program that copies
// all attributes does not make every batch.
const readyAttribute = "user.batchfs.ready"

// GetXAttr reads an attribute. errorAttribute exists only where an open has failed.
func (f *filesystem) GetXAttr(_ <-chan struct{}, header *fuse.InHeader, name string, dest []byte) (uint32, fuse.Status) {
	n, ok := f.tree.node(header.NodeId)
	if !ok || n.kind != batchFile {
		return 0, fuse.ENOATTR
	}
	switch failure := f.failures.last(n.key); {
	case name == errorAttribute && failure != "":
		return put(dest, failure)
	case name == readyAttribute:
		made := len(dest) > 0 && f.src.Begin(n.key, n.form) // without room for the value, only its length is asked for
		return put(dest, strconv.Itoa(map[bool]int{true: 1}[made]))
	}
	for _, a := range attributes {
		if a.name == name {
			return put(dest, a.of(f, n, f.catalog.Spec(n.key)))
		}
	}
	return 0, fuse.ENOATTR
}

// ListXAttr lists the names of a node's attributes.
func (f *filesystem) ListXAttr(_ <-chan struct{}, header *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	if n, ok := f.tree.node(header.NodeId); ok && n.kind == batchFile {
		names := ""
		for _, a := range attributes {
			names += a.name + "\x00"
		}
		if f.failures.last(n.key) != "" {
			names += errorAttribute + "\x00"
		}
		return put(dest, names)
	}
	return 0, fuse.OK
}

// put copies a value into the caller's buffer. If the buffer has no room at all, go-fuse turns
// ERANGE into the length, as requested.
func put(dest []byte, value string) (uint32, fuse.Status) {
	if len(dest) < len(value) {
		return uint32(len(value)), fuse.ERANGE
	}
	return uint32(copy(dest, value)), fuse.OK
}
