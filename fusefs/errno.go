package fusefs

import (
	"context"
	"errors"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/engine"
)

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
