package fusefs

import (
	"log/slog"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/batchfs/batchfs/engine"
)

// A filesystem answers the kernel's requests. Its methods are in lookup.go, dirs.go,
// open.go, xattr.go, statfs.go and readonly.go. None is inherited, so that a method renamed
// by go-fuse is a compile error rather than silently "not supported".
type filesystem struct {
	src       source
	catalog   *engine.Catalog
	longest   int // length of the longest path in documents
	tree      *tree
	attrs     attributes
	path      readPath
	viaDaemon uint32 // open flags of large files that the daemon serves
	handles   handles
	files     openFiles
	counters  counters
	log       *slog.Logger
	request   int         // size of the largest read, in bytes
	alive     func() bool // reports whether the kernel still waits for answers

	dataset, classes, config []byte // documents that never change
}

var _ fuse.RawFileSystem = (*filesystem)(nil)

// counters count requests, except those for files below .batchfs: observing a mount must
// not change its figures.
type counters struct{ opens, reads atomic.Int64 }

// newFilesystem builds the tree over a source.
func newFilesystem(src source, o Options, path readPath) (*filesystem, error) {
	c := src.Catalog()
	classes := classesTxt(c.Dataset.Classes())
	t, err := newTree(plan{c.Options.Shards, c.Options.Epochs, c.MaxBatches, c.Plan.Batches}, o.List, classes != nil)
	if err != nil {
		return nil, err
	}
	f := &filesystem{
		src: src, catalog: c, longest: longestPath(c.Dataset), tree: t, path: path, viaDaemon: fuse.FOPEN_DIRECT_IO, log: o.Logger,
		request: smallRequest, alive: func() bool { return true },
		dataset: datasetJSON(c), classes: classes, config: o.Config,
	}
	f.attrs = attributes{
		uid: o.UID, gid: o.GID,
		fileMode: mode(o.FileMode, defaultFileMode), dirMode: mode(o.DirMode, defaultDirMode),
		modTime: c.Dataset.ModTime(),
	}
	f.files.log = o.Logger
	return f, nil
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
		f.log.Info("batches go through the page cache: this kernel cannot map them otherwise (Linux 6.6 can)")
	}
}

// OnUnmount is called after the last request. No reader of the files still open is served
// by the daemon: the mount was aborted, or is gone.
func (f *filesystem) OnUnmount() {
	for _, h := range f.handles.removeAll() {
		f.close(h)
	}
}

// String and SetDebug are for go-fuse's debug output, which is not used.
func (f *filesystem) String() string { return fsType }
func (f *filesystem) SetDebug(bool)  {}
