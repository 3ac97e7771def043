package convert

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/dataset"
)

// kept is how a file was kept.
type kept uint8

const (
	linked kept = iota
	cloned
	copied
	symlinked
)

// link makes name a hard link to the source's file. It returns false if the file system
// refuses, or the file does not exist.
func (f *files) link(name, source string) (bool, error) {
	err := ignoringEINTR(func() error {
		return unix.Linkat(f.from(), source, f.to(), name, unix.AT_SYMLINK_FOLLOW)
	})
	switch err {
	case nil, unix.EEXIST: // a manifest can name a file twice, and two workers may race for it
		f.step()
		return true, nil
	case unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO:
		return false, f.fail("link", name, err)
	}
	// EXDEV, EPERM, EMLINK and others: a copy works instead, or fails with its own error.
	return false, nil
}

// symlink makes name a symbolic link to the source's file.
func (f *files) symlink(name, source string) error {
	err := unix.Symlinkat(f.absolute(source), f.to(), name)
	if err == unix.EEXIST {
		return nil
	}
	return f.fail("symlink", name, err)
}

// copy makes name a separate file with the source's content. same checks that the source is the
// expected file.
func (f *files) copy(worker int, name, source string, same func(*unix.Stat_t) error) (how kept, err error) {
	fd, err := openAt(f.from(), source, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return 0, sourceError(err)
	}
	in := os.NewFile(uintptr(fd), f.absolute(source))
	defer in.Close()
	st, err := statRegular(fd)
	if err != nil {
		return 0, sourceError(err)
	}
	if err := same(st); err != nil {
		return 0, err
	}
	err = f.create(worker, name, st.Mode&0o777, st.Mtim.Nano(), func(out *os.File) error {
		if how, err = transfer(out, in, st.Size); err != nil {
			return err
		}
		after, err := statRegular(fd)
		if err != nil {
			return sourceError(err)
		}
		return same(after)
	})
	return how, err
}

func statRegular(fd int) (*unix.Stat_t, error) {
	var st unix.Stat_t
	if err := ignoringEINTR(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, dataset.ErrNotFile
	}
	return &st, nil
}

// transfer copies size bytes: by sharing blocks, else in the kernel, else with reads and
// writes, which also show which of the two files is at fault.
func transfer(out, in *os.File, size int64) (kept, error) {
	if err := unix.IoctlFileClone(int(out.Fd()), int(in.Fd())); err == nil {
		return cloned, nil
	}
	done := int64(0)
	for done < size {
		n, err := unix.CopyFileRange(int(in.Fd()), &done, int(out.Fd()), nil, int(min(size-done, 1<<30)), 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			break
		}
	}
	return copied, copyRest(out, in, done, size)
}

// copyRest copies everything after the first done bytes.
func copyRest(out, in *os.File, done, size int64) error {
	if done == size {
		return nil
	}
	buf := make([]byte, min(size-done, 1<<20))
	for done < size {
		n, err := in.ReadAt(buf[:min(size-done, int64(len(buf)))], done)
		if n == 0 {
			if err == nil || err == io.EOF {
				err = dataset.ErrChanged // shorter than it was
			}
			return sourceError(err)
		}
		if _, err := out.WriteAt(buf[:n], done); err != nil {
			return err
		}
		done += int64(n)
	}
	return nil
}
