package fault

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOf: an error keeps its cause, whatever wraps it. Of several causes, the one counts that can
// look like the others.
func TestOf(t *testing.T) {
	file, machine, memory, cancelled := New(File, "damaged"), New(Machine, "away"), New(Memory, "no room"), New(Cancelled, "stopped")
	for _, c := range []struct {
		err  error
		want Cause
	}{
		{nil, Machine}, {errors.New("whatever else"), Machine},
		{file, File}, {machine, Machine}, {memory, Memory}, {cancelled, Cancelled}, {&Fault{File, memory}, Memory},
		{unix.ENOENT, File}, {unix.EACCES, File}, {unix.ELOOP, File}, {unix.ENOTDIR, File}, {unix.ENAMETOOLONG, File},
		{unix.ENOMEM, Memory}, {unix.EIO, Machine}, {unix.ESTALE, Machine}, {unix.EMFILE, Machine}, {unix.EINTR, Machine},
		{context.Canceled, Cancelled}, {context.DeadlineExceeded, Cancelled},
		{&fs.PathError{Op: "open", Path: "a", Err: unix.EACCES}, File},
		{fmt.Errorf("%w: %w", file, unix.ENOENT), File}, {fmt.Errorf("%w: %w", file, unix.ESTALE), Machine},
		{fmt.Errorf("%w: %w", machine, unix.ENOENT), Machine}, {fmt.Errorf("%w: %w", unix.ENOENT, machine), Machine},
		{fmt.Errorf("%w: %w", file, memory), Memory}, {errors.Join(machine, memory), Memory}, {errors.Join(memory, context.Canceled), Cancelled},
	} {
		for _, err := range []error{c.err, fmt.Errorf("a sample: %w", c.err), errors.Join(errors.New("x"), fmt.Errorf("y: %w", c.err))} {
			if got := Of(err); got != c.want {
				t.Errorf("%v: %d, want %d", err, got, c.want)
			}
		}
	}
	if !errors.Is(fmt.Errorf("x: %w", file), file) || file.Error() != "damaged" {
		t.Error(file)
	}
}
