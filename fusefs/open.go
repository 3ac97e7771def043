package fusefs

import (
	"context"
	"errors"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/engine"
)

// A handle is one open file.
type handle struct {
	data    []byte    // never changes while the file is open
	file    *openFile // whose memory data is; nil for small files
	control bool      // below .batchfs: not counted
}

func (f *filesystem) handle(fh uint64) (*handle, bool) {
	h, ok := f.handles.Load(fh)
	if !ok {
		return nil, false
	}
	return h.(*handle), true
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
		f.counters.opens.Add(1)
	}
	ctx := f.untilSignal(cancel, in.Pid)
	defer ctx.end()
	h, flags, err := f.open(ctx, in.NodeId, n)
	if err != nil {
		f.report(n, err)
		return status(err)
	}
	// There are no writes, so there is nothing to flush.
	out.OpenFlags = flags | fuse.FOPEN_NOFLUSH
	if h.file != nil {
		out.BackingID = h.file.backing
	}
	out.Fh = f.lastFh.Add(1)
	f.handles.Store(out.Fh, h)
	return fuse.OK
}

// open makes a handle, and returns the open flags for the kernel.
func (f *filesystem) open(ctx context.Context, id uint64, n node) (*handle, uint32, error) {
	switch {
	case n.isControl():
		// Its size may have changed since stat: only direct I/O reads past the known size.
		return &handle{data: f.document(n), control: true}, fuse.FOPEN_DIRECT_IO, nil
	case n.kind != batchFile:
		return &handle{data: f.document(n)}, 0, nil
	case !n.form.Large():
		data, err := f.small(ctx, n)
		return &handle{data: data}, 0, err
	}
	opened, err := f.src.Open(ctx, n.key, n.form)
	if err != nil {
		return nil, 0, err
	}
	shared := f.files.add(id, opened)
	h := &handle{data: shared.file.Bytes(), file: shared}
	if shared.backing != 0 {
		return h, fuse.FOPEN_PASSTHROUGH, nil
	}
	return h, f.viaDaemon, nil
}

// small renders a small form of a batch.
func (f *filesystem) small(ctx context.Context, n node) ([]byte, error) {
	d, err := f.src.Describe(ctx, n.key)
	if err != nil {
		return nil, err
	}
	return renderSmall(f.catalog.Dataset, f.catalog.Options.Seed, d, n.form, f.longest)
}

// report logs errors that the engine does not report itself, as it does bad samples and
// lack of memory.
func (f *filesystem) report(n node, err error) {
	for _, known := range []error{
		context.Canceled, context.DeadlineExceeded, engine.ErrBad, engine.ErrNoMemory, engine.ErrMachine, engine.ErrTooBig, engine.ErrClosed,
	} {
		if errors.Is(err, known) {
			return
		}
	}
	f.log.Error("a batch could not be opened", "batch", n.key.String(), "form", n.form.String(), "error", err)
}

// Read answers from the batch's own memory. The kernel copies it while the file is open, so
// the memory stays valid.
func (f *filesystem) Read(_ <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	h, ok := f.handle(in.Fh)
	if !ok {
		return nil, fuse.EBADF
	}
	if !h.control {
		f.counters.reads.Add(1)
	}
	from := min(in.Offset, uint64(len(h.data)))
	to := min(from+uint64(in.Size), uint64(len(h.data)))
	return fuse.ReadResultData(h.data[from:to]), fuse.OK
}

// Release closes a file that no process has open or mapped any more.
func (f *filesystem) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	if h, ok := f.handles.LoadAndDelete(in.Fh); ok && h.(*handle).file != nil {
		f.files.release(h.(*handle).file)
	}
}
