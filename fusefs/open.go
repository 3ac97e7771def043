package fusefs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/layout"
)

// An openFile is the content of a file while it is open. All opens of a large file share one:
// the kernel requires one backing id and one way of reading for all opens of an inode.
type openFile struct {
	data    []byte // never changes
	control bool   // below .batchfs: not counted

	// Only for large files.
	id      uint64
	file    file  // data is in its memory; closed when refs becomes 0
	backing int32 // the kernel's id for it; 0: the daemon serves the reads
	refs    int   // guarded by openFiles.mu

	opener *opener // for a file of the form CUDA, which is not shared
}

func (f *filesystem) handle(fh uint64) (*openFile, bool) {
	h, _ := f.handles.Load(fh)
	opened, ok := h.(*openFile)
	return opened, ok
}

// Open opens a file for reading. It is the only request that waits: until the batch is
// made, or the opening process is interrupted (interrupt.go).
func (f *filesystem) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n, ok := f.tree.node(in.NodeId)
	switch {
	case !ok:
		return fuse.ENOENT
	case in.Flags&unix.O_ACCMODE != unix.O_RDONLY || in.Flags&unix.O_TRUNC != 0:
		return fuse.EROFS
	case n.isDir():
		return fuse.EISDIR
	}
	if !n.isControl() {
		f.opens.Add(1)
	}
	ctx := f.untilSignal(cancel, in.Pid)
	defer ctx.end()
	h, flags, err := f.open(ctx, in, n)
	if err != nil {
		f.failures.remember(n.key, err, f.src.Remedy)
		st, known := status(err)
		if !known {
			f.options.Logger.Error("a batch could not be opened", "batch", n.key.String(), "form", n.form.String(), "error", err)
		}
		return st
	}
	// There are no writes, so there is nothing to flush.
	out.OpenFlags = flags | fuse.FOPEN_NOFLUSH
	out.BackingID = h.backing
	out.Fh = f.lastFh.Add(1)
	f.handles.Store(out.Fh, h)
	return fuse.OK
}

// open returns a file's content and the open flags for the kernel.
func (f *filesystem) open(ctx context.Context, in *fuse.OpenIn, n node) (*openFile, uint32, error) {
	switch {
	case n.isControl():
		// Its size may have changed since stat: only direct I/O reads past the known size.
		return &openFile{data: f.document(n), control: true}, fuse.FOPEN_DIRECT_IO, nil
	case n.kind != batchFile:
		return &openFile{data: f.document(n)}, 0, nil
	case !n.form.Large():
		data, err := f.small(ctx, n)
		flags := uint32(0)
		if n.form == layout.JSON { // what is known about bad files changes, and no reader may see half of each state
			flags = f.viaDaemon
		}
		return &openFile{data: data}, flags, err
	case n.form == layout.CUDA:
		return f.lease(ctx, n, in.Pid)
	}
	opened, err := f.src.Open(ctx, n.key, n.form)
	if err != nil {
		return nil, 0, err
	}
	shared := f.files.add(in.NodeId, opened)
	if shared.backing != 0 {
		return shared, fuse.FOPEN_PASSTHROUGH, nil
	}
	return shared, f.viaDaemon, nil
}

func (f *filesystem) small(ctx context.Context, n node) ([]byte, error) {
	data, err := rendered(ctx, f, n)
	if errors.Is(err, catalog.ErrAnnotation) {
		err = fmt.Errorf("%w: %w", engine.ErrBad, err)
	}
	return data, err
}

func rendered(ctx context.Context, f *filesystem, n node) ([]byte, error) {
	c := f.catalog
	if n.form.IsArray() {
		return c.ArrayOffsets(n.key, n.form)
	}
	if n.form.IsTarget() && n.form != layout.Text && c.Options.OnError == engine.Fail { // the file can be made without a description
		rows, err := c.Options.Targets.RowsOf(catalog.Description{Key: n.key})
		if err != nil {
			return nil, err
		}
		return layout.AppendNPY(nil, n.form, c.Options.SpecIn(c.Spec(n.key), n.key, n.form), layout.Meta{Rows: rows}), nil
	}
	d, err := f.src.Describe(ctx, n.key)
	if err != nil {
		return nil, err
	}
	return renderSmall(c, d, n.form, f.longest)
}

// statuses are the errors that the engine reports itself, with their errno. The first match
// counts. An errno wrapped in an error is ignored: a missing sample file is an error of its
// batch (EIO), not a missing batch.
var statuses = []struct {
	err    error
	status fuse.Status
}{
	{engine.ErrBad, fuse.EIO},
	{context.Canceled, fuse.EINTR},
	{context.DeadlineExceeded, fuse.EINTR},
	{engine.ErrNoMemory, fuse.Status(unix.ENOMEM)},
	{engine.ErrTooBig, fuse.Status(unix.EFBIG)},
	{engine.ErrNotExist, fuse.ENOENT},
	{engine.ErrClosed, fuse.Status(unix.ENOTCONN)}, // what the kernel returns when the daemon is gone
	{engine.ErrMachine, fuse.EIO},
}

// status translates errors to errno, for the whole package. known is false for errors that
// nobody has reported yet.
func status(err error) (st fuse.Status, known bool) {
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			return s.status, true
		}
	}
	return fuse.EIO, false
}

// Read answers from the batch's own memory. The kernel copies it while the file is open, so
// the memory stays valid.
func (f *filesystem) Read(_ <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	h, ok := f.handle(in.Fh)
	if !ok {
		return nil, fuse.EBADF
	}
	if !h.control {
		f.reads.Add(1)
	}
	from := min(in.Offset, uint64(len(h.data)))
	to := min(from+uint64(in.Size), uint64(len(h.data)))
	return fuse.ReadResultData(h.data[from:to]), fuse.OK
}

// Release closes a file that no process has open or mapped any more.
func (f *filesystem) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	h, _ := f.handles.LoadAndDelete(in.Fh)
	switch opened, ok := h.(*openFile); {
	case !ok || opened.file == nil:
	case opened.opener != nil:
		opened.opener.outlived(opened.file.Close)
	default:
		f.files.release(opened)
	}
}

// A registrar is a *fuse.Server: it registers files with the kernel as backing of inodes.
type registrar interface {
	RegisterBackingFd(*fuse.BackingMap) (int32, syscall.Errno)
	UnregisterBackingFd(int32) syscall.Errno
}

// openFiles are the open large files. The mutex is held while a file is registered, which
// does not wait, and never while a batch is made.
type openFiles struct {
	kernel registrar // nil: the daemon serves all files
	log    *slog.Logger

	refused atomic.Int64 // registrations refused by the kernel
	mu      sync.Mutex
	byNode  map[uint64]*openFile
}

// add takes ownership of a newly opened file and returns a share. If the inode is already
// open, the share is in the existing file, and the new one, which holds the same bytes, is
// closed. (The engine has to see every open, because it follows readers by their opens.)
func (t *openFiles) add(id uint64, opened file) *openFile {
	f := t.share(id, opened)
	if f.file != opened {
		opened.Close()
	}
	return f
}

func (t *openFiles) share(id uint64, opened file) *openFile {
	t.mu.Lock()
	defer t.mu.Unlock() // even after a panic, which costs only one request
	f := t.byNode[id]
	if f == nil {
		f = &openFile{data: opened.Bytes(), id: id, file: opened, backing: t.register(opened)}
		t.byNode[id] = f
	}
	f.refs++
	return f
}

// register asks the kernel to serve a file itself. If it refuses, the daemon serves all
// opens that share this file: the same bytes, more slowly.
func (t *openFiles) register(opened file) (backing int32) {
	if t.kernel == nil || opened.Fd() < 0 {
		return 0
	}
	id, errno := t.kernel.RegisterBackingFd(&fuse.BackingMap{Fd: int32(opened.Fd())})
	if errno == 0 {
		return id
	}
	if t.refused.Add(1) == 1 {
		t.log.Warn("the kernel refused a batch for passthrough; it is read through the daemon (more are only counted)", "error", errno)
	}
	return 0
}

// release gives back a share; the last one closes the file. The kernel drops an inode's
// backing before it sends the release, so the next open of the inode may register another.
func (t *openFiles) release(f *openFile) {
	t.mu.Lock()
	f.refs--
	last := f.refs == 0
	if last {
		delete(t.byNode, f.id)
		if f.backing != 0 {
			// It fails only if the connection is gone, and the id with it.
			_ = t.kernel.UnregisterBackingFd(f.backing)
		}
	}
	t.mu.Unlock()
	if last {
		f.file.Close()
	}
}
