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
	mode   error // error of turning direct reads on
	refuse error // error of direct reads
	open1  error // error of opening
	stat1  error // error of stat for a file that was read
	// read, if not nil, replaces pread.
	read func(fd int, p []byte, offset int64) (int, error)

	isDirect sync.Map // descriptors in direct mode
	directs  atomic.Int64
	ordinary atomic.Int64
	drops    atomic.Int64
	crooked  atomic.Pointer[string]
}

func (f *faultySystem) open(dir, path string) (int, error) {
	if f.open1 != nil {
		return -1, f.open1
	}
	return f.kernel.open(dir, path)
}

func (f *faultySystem) stat(fd int) (Identity, error) {
	if f.stat1 != nil && f.directs.Load()+f.ordinary.Load() > 0 {
		return Identity{}, f.stat1
	}
	return f.kernel.stat(fd)
}

// direct only records the mode, whatever the real file system supports.
func (f *faultySystem) direct(fd int, on bool) error {
	if on && f.mode != nil {
		return f.mode
	}
	if on {
		f.isDirect.Store(fd, true)
	} else {
		f.isDirect.Delete(fd)
	}
	return nil
}

func (f *faultySystem) close(fd int) {
	f.isDirect.Delete(fd)
	f.kernel.close(fd)
}

func (f *faultySystem) pread(fd int, p []byte, offset int64) (int, error) {
	if _, direct := f.isDirect.Load(fd); direct {
		f.directs.Add(1)
		if offset%directUnit != 0 || len(p)%directUnit != 0 || !aligned(p) {
			text := fmt.Sprintf("%d bytes at %d into %p", len(p), offset, p)
			f.crooked.Store(&text)
		}
		if f.refuse != nil {
			return 0, f.refuse
		}
	} else {
		f.ordinary.Add(1)
	}
	if f.read != nil {
		return f.read(fd, p, offset)
	}
	return f.kernel.pread(fd, p, offset)
}

// cached says nothing, as older kernels do.
func (f *faultySystem) cached(int, int64, int64) bool { return false }

func (f *faultySystem) advise(fd int, advice int) {
	if advice == unix.FADV_DONTNEED {
		f.drops.Add(1)
	}
	f.kernel.advise(fd, advice)
}
