package fusefs

import (
	"context"
	"errors"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/batchfs/batchfs/engine"
)

// status translates errors to errno, for the whole package. An errno wrapped in an error is
// ignored: a missing sample file is an error of its batch (EIO), not a missing batch.
func status(err error) fuse.Status {
	switch {
	case err == nil:
		return fuse.OK
	case errors.Is(err, engine.ErrBad):
		return fuse.EIO
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fuse.EINTR
	case errors.Is(err, engine.ErrNoMemory):
		return fuse.Status(syscall.ENOMEM)
	case errors.Is(err, engine.ErrTooBig):
		return fuse.Status(syscall.EFBIG)
	case errors.Is(err, engine.ErrNotExist):
		return fuse.ENOENT
	case errors.Is(err, engine.ErrClosed):
		return fuse.Status(syscall.ENOTCONN) // what the kernel returns when the daemon is gone
	}
	return fuse.EIO
}
