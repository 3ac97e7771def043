package tier

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/owned"
)

// room counts how much the extents of all datasets in a directory take, together with all other
// processes that use the directory.
type room struct {
	dir  string
	lock *os.File
	page []byte // of the file used, mapped

	evicting sync.Mutex
}

const counterBytes = 8

// counterIn is the number in a counter file; 0 until it has been written.
func counterIn(f *os.File) int64 {
	var b [counterBytes]byte
	_, _ = f.ReadAt(b[:], 0)
	return int64(binary.NativeEndian.Uint64(b[:]))
}

func openRoom(dir string) (*room, error) {
	lock, _, err := owned.Open(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	r := &room{dir: dir, lock: lock}
	alone := owned.Lock(lock, unix.LOCK_EX|unix.LOCK_NB) == nil
	if err := r.open(alone); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *room) open(alone bool) error {
	f, _, err := owned.Open(filepath.Join(r.dir, "used"), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	defer f.Close()
	// Without a block on the disk, writing to the mapping would end the process once the disk is
	// full.
	err = unix.Fallocate(int(f.Fd()), 0, 0, counterBytes)
	if err == unix.EOPNOTSUPP {
		err = f.Truncate(counterBytes)
	}
	if err != nil {
		return &os.PathError{Op: "allocate", Path: f.Name(), Err: err}
	}
	if r.page, err = unix.Mmap(int(f.Fd()), 0, counterBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return err
	}
	runtime.AddCleanup(r, func(page []byte) { _ = unix.Munmap(page) }, r.page)
	if alone {
		r.add(sizeBelow(r.dir) - r.used())
	}
	return owned.Lock(r.lock, unix.LOCK_SH) // waits for a process that counts
}

// close ends the use of the directory. The page stays, for reads that a disk answers later.
func (r *room) close() { r.lock.Close() }

// count is how many bytes extents take. The mapping must be kept alive while it is used.
func (r *room) count() *atomic.Int64 { return (*atomic.Int64)(unsafe.Pointer(&r.page[0])) }

// add changes the bytes that extents take.
func (r *room) add(n int64) {
	defer runtime.KeepAlive(r)
	r.count().Add(n)
}

func (r *room) used() int64 {
	defer runtime.KeepAlive(r)
	return r.count().Load()
}

// most is the default limit: other users need some of the disk, too.
func (r *room) most() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(r.lock.Fd()), &st); err != nil {
		return 0, err
	}
	return r.used() + int64(st.Bavail)*st.Bsize/10*9, nil
}

func (r *room) give(n int64) { r.add(-n) }

// take takes n bytes if there is room for them, and reports whether there was. What does not fit is
// never counted, or it would keep out another extent that fits.
func (r *room) take(n, limit int64) bool {
	defer runtime.KeepAlive(r)
	for used := r.count(); ; {
		before := used.Load()
		if before+n > limit {
			return false
		}
		if used.CompareAndSwap(before, before+n) {
			return true
		}
	}
}

// makeRoom is take, but makes other extents give way if necessary. more removes one; false: there
// is none.
func (r *room) makeRoom(n, limit int64, more func() bool) bool {
	if n > limit || r.take(n, limit) {
		return n <= limit
	}
	r.evicting.Lock()
	defer r.evicting.Unlock()
	for !r.take(n, limit) {
		if !r.evict() && !more() {
			return false
		}
	}
	return true
}

// evict removes the least recently used dataset that nobody uses now.
func (r *room) evict() (more bool) {
	return r.eachUnused(func(dir string) bool {
		n := sizeBelow(dir)
		err := remove(dir)
		r.give(n - sizeBelow(dir))
		return err == nil
	})
}

// shrink removes unused extents until the others fit into a limit, which may have been higher when
// they were added.
func (r *room) shrink(limit int64) {
	fits := func() bool { return r.used() <= limit }
	if fits() {
		return
	}
	r.eachUnused(func(dir string) bool {
		_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if fits() {
				return fs.SkipAll
			}
			if size := extentSize(e, err); size > 0 && os.Remove(path) == nil {
				r.give(size)
			}
			return nil
		})
		return fits()
	})
}

// eachUnused calls f for the datasets that nobody uses, least recently used first, until it is
// done. Nobody can begin to use a dataset during the call.
func (r *room) eachUnused(f func(dir string) (done bool)) (done bool) {
	type unused struct {
		path string
		at   int64
	}
	var found []unused
	entries, _ := os.ReadDir(r.dir)
	for _, e := range entries {
		path := filepath.Join(r.dir, e.Name())
		if info, err := os.Stat(filepath.Join(path, "lock")); e.IsDir() && err == nil {
			found = append(found, unused{path, info.ModTime().UnixNano()})
		}
	}
	slices.SortFunc(found, func(a, b unused) int { return int(min(max(a.at-b.at, -1), 1)) })
	for _, d := range found {
		lock, _, err := owned.Open(filepath.Join(d.path, "lock"), os.O_RDONLY)
		if err != nil {
			continue
		}
		err = owned.Lock(lock, unix.LOCK_EX|unix.LOCK_NB)
		done = err == nil && isThere(lock) && f(d.path)
		lock.Close()
		if done {
			return true
		}
	}
	return false
}

// remove removes a dataset, and its lock last: without a lock, nobody would look at the remains if
// the process were killed here.
func remove(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == "lock" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	err = os.Remove(filepath.Join(dir, "lock"))
	_ = os.Remove(dir) // fails if it is in use again
	return err
}

// sizeBelow is how much the extents below a directory take.
func sizeBelow(dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		total += extentSize(e, err)
		return nil
	})
	return total
}

// extentSize is how much a directory entry takes: 0 if it is not an extent, is gone, or cannot be
// counted.
func extentSize(e fs.DirEntry, err error) int64 {
	if err != nil || !e.Type().IsRegular() {
		return 0
	}
	info, err := e.Info()
	if err != nil || info.Size() <= counterBytes {
		return 0
	}
	return info.Size()
}

// isFull says whether an error means that the disk has no room.
func isFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
