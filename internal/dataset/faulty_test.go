package dataset

import (
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// faultySystem is a system that fails in a given way and records its calls.
type faultySystem struct {
	kernel
	// fail, if not nil, returns the error of each call: open, stat, look, direct, read or "direct
	// read".
	fail func(call string) error
	// read, if not nil, replaces pread.
	read func(fd int, p []byte, offset int64) (int, error)

	isDirect sync.Map // descriptors in direct mode
	directs  atomic.Int64
	ordinary atomic.Int64
	drops    atomic.Int64
	crooked  atomic.Pointer[string]
}

// failing is a system in which a call always fails.
func failing(call string, with error) *faultySystem {
	return &faultySystem{fail: func(c string) error {
		if c == call {
			return with
		}
		return nil
	}}
}

// failingAt is a system in which the k-th call fails, counted from 1, and reads are short. It
// counts calls.
func failingAt(k int64, with error) (f *faultySystem, calls *atomic.Int64) {
	calls = new(atomic.Int64)
	return &faultySystem{
		fail: func(string) error {
			if calls.Add(1) == k {
				return with
			}
			return nil
		},
		read: func(fd int, p []byte, offset int64) (int, error) {
			return kernel{}.pread(fd, p[:min(len(p), 32<<10)], offset)
		},
	}, calls
}

func (f *faultySystem) before(call string) error {
	if f.fail == nil {
		return nil
	}
	return f.fail(call)
}

func (f *faultySystem) open(dir, path string) (int, error) {
	if err := f.before("open"); err != nil {
		return -1, err
	}
	return f.kernel.open(dir, path)
}

func (f *faultySystem) stat(fd int) (Identity, error) {
	if err := f.before("stat"); err != nil {
		return unknown, err
	}
	return f.kernel.stat(fd)
}

func (f *faultySystem) look(dir, path string) (Identity, error) {
	if err := f.before("look"); err != nil {
		return unknown, err
	}
	return f.kernel.look(dir, path)
}

// direct only records the mode, whatever the real file system supports.
func (f *faultySystem) direct(fd int, on bool) error {
	if !on {
		f.isDirect.Delete(fd)
		return nil
	}
	err := f.before("direct")
	if err == nil {
		f.isDirect.Store(fd, true)
	}
	return err
}

func (f *faultySystem) close(fd int) {
	f.isDirect.Delete(fd)
	f.kernel.close(fd)
}

func (f *faultySystem) pread(fd int, p []byte, offset int64) (int, error) {
	call := "read"
	if _, direct := f.isDirect.Load(fd); direct {
		call = "direct read"
		f.directs.Add(1)
		if offset%directUnit != 0 || len(p)%directUnit != 0 || !aligned(p) {
			text := fmt.Sprintf("%d bytes at %d into %p", len(p), offset, p)
			f.crooked.Store(&text)
		}
	} else {
		f.ordinary.Add(1)
	}
	if err := f.before(call); err != nil {
		return 0, err
	}
	if f.read != nil {
		return f.read(fd, p, offset)
	}
	return f.kernel.pread(fd, p, offset)
}

// cached always says no, as older kernels do.
func (f *faultySystem) cached(int, int64, int64) bool { return false }

func (f *faultySystem) advise(fd int, advice int) {
	if advice == unix.FADV_DONTNEED {
		f.drops.Add(1)
	}
	f.kernel.advise(fd, advice)
}
