package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/dataset"
)

// files puts files into the stage. Its methods may be called concurrently, except those that
// take a worker's number: each worker makes one such call at a time.
type files struct {
	root    string // of the source
	source  *os.File
	stage   *stage
	scratch *os.File
	step    func()

	mu   sync.Mutex
	dirs map[string]bool // that exist
}

func newFiles(root string, s *stage, step func()) (*files, error) {
	f := &files{root: root, stage: s, step: step, dirs: map[string]bool{".": true}}
	var err error
	if f.source, err = os.Open(root); err != nil {
		return nil, err
	}
	if f.scratch, err = os.Open(s.at(scratchName)); err != nil {
		f.source.Close()
		return nil, err
	}
	return f, nil
}

func (f *files) close() {
	f.scratch.Close()
	f.source.Close()
}

// from, to and temp are directory descriptors for system calls.
func (f *files) from() int { return int(f.source.Fd()) }
func (f *files) to() int   { return int(f.stage.dir.Fd()) }
func (f *files) temp() int { return int(f.scratch.Fd()) }

// fail adds the path to an error of a system call.
func (f *files) fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return spaceError(&fs.PathError{Op: op, Path: f.stage.at(name), Err: err})
}

// makeDir makes a directory of the result and its parents. Each gets the permissions of the
// source's directory of the same name, if there is one.
func (f *files) makeDir(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.makeDirs(dir)
}

func (f *files) makeDirs(dir string) error {
	if f.dirs[dir] {
		return nil
	}
	if err := f.makeDirs(path.Dir(dir)); err != nil {
		return err
	}
	mode := uint32(0o755)
	var st unix.Stat_t
	if unix.Fstatat(f.from(), dir, &st, 0) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		mode = st.Mode&0o777 | 0o700
	}
	if err := unix.Mkdirat(f.to(), dir, mode); err != nil && err != unix.EEXIST {
		return f.fail("mkdir", dir, err)
	}
	f.dirs[dir] = true
	return nil
}

// found describes an existing file of the result.
type found struct {
	dataset.Identity
	link bool // a symbolic link
}

// look finds a file in the result; nil if there is none.
func (f *files) look(name string) (*found, error) {
	var st unix.Stat_t
	switch err := ignoringEINTR(func() error { return unix.Fstatat(f.to(), name, &st, unix.AT_SYMLINK_NOFOLLOW) }); err {
	case nil:
	case unix.ENOENT, unix.ENOTDIR:
		return nil, nil
	default:
		return nil, f.fail("stat", name, err)
	}
	return &found{identityOf(&st), st.Mode&unix.S_IFMT == unix.S_IFLNK}, nil
}

func identityOf(st *unix.Stat_t) dataset.Identity {
	return dataset.Identity{Size: st.Size, ModTime: st.Mtim.Nano()}
}

// write makes a file of the result with the given content and the source file's permissions and
// modification time.
func (f *files) write(worker int, name, source string, content []byte, modTime int64) error {
	var st unix.Stat_t
	if err := ignoringEINTR(func() error { return unix.Fstatat(f.from(), source, &st, 0) }); err != nil {
		return fmt.Errorf("%w: %w", ErrSource, &fs.PathError{Op: "stat", Path: f.absolute(source), Err: err})
	}
	return f.create(worker, name, st.Mode&0o777, modTime, func(out *os.File) error {
		for len(content) > 0 { // in parts, so that tests can interrupt it
			n := min(len(content), 1<<20)
			if _, err := out.Write(content[:n]); err != nil {
				return err
			}
			content = content[n:]
			f.step()
		}
		return nil
	})
}

// create makes a file in the scratch directory, fills it, and moves it into place.
func (f *files) create(worker int, name string, mode uint32, modTime int64, fill func(out *os.File) error) (err error) {
	temp := strconv.Itoa(worker)
	fd, err := openAt(f.temp(), temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, mode)
	if err != nil {
		return f.fail("create", name, err)
	}
	out := os.NewFile(uintptr(fd), f.stage.at(name))
	defer func() {
		if err != nil {
			out.Close()
			unix.Unlinkat(f.temp(), temp, 0)
			err = spaceError(err)
		}
	}()
	f.step()
	if err := fill(out); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	f.step()
	// Set the time by name and after closing: some network file systems write the data, and so
	// change the time, when a file is closed.
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(modTime)}
	if err := unix.UtimesNanoAt(f.temp(), temp, times, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return f.fail("set time of", name, err)
	}
	f.step()
	if err := unix.Renameat(f.temp(), temp, f.to(), name); err != nil {
		return f.fail("rename", name, err)
	}
	f.step()
	return nil
}

func (f *files) remove(name string) error {
	if err := unix.Unlinkat(f.to(), name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return f.fail("remove", name, err)
	}
	return nil
}

// absolute returns the absolute path of a source file.
func (f *files) absolute(source string) string {
	if filepath.IsAbs(source) {
		return source
	}
	return filepath.Join(f.root, source)
}

func openAt(dir int, name string, flags int, mode uint32) (fd int, err error) {
	err = ignoringEINTR(func() error {
		fd, err = unix.Openat(dir, name, flags|unix.O_CLOEXEC, mode)
		return err
	})
	return fd, err
}

// ignoringEINTR repeats a call that a signal interrupted, such as the Go runtime's own.
func ignoringEINTR(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
