package tier

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"unsafe"

	"crypto/sha256"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/owned"
)

// Options say how to open a tier.
type Options struct {
	Limit   int64        // bytes, for all that is in the directory; 0: what is there and most of the free space
	Dataset string       // names the dataset among those that use the directory
	Fillers int          // how many extents are fetched at once, each in memory of its own; below 1: 4
	Logger  *slog.Logger // nil: none
	Renew   bool         // see Tier.Renew
}

// Tier is the extents of one dataset. Its methods may be called concurrently, until Close.
type Tier struct {
	opts    Options
	room    *room
	dir     *os.File // of the dataset
	lock    *os.File
	direct  atomic.Bool
	files   sync.Pool    // of []byte: memory for direct writes
	readers chan []byte  // memory for direct reads; nil: not made yet
	since   atomic.Int64 // nanoseconds since 1970: what nobody has used since then is old
	renew   atomic.Bool
	old     old
	follows following
	filling
	counts
}

// Stats tells what a tier did. Counts are since it was opened.
type Stats struct {
	Limit     int64 `json:"limit"`      // bytes
	Used      int64 `json:"used"`       // bytes, of all datasets in the directory
	Hits      int64 `json:"hits"`       // reads that the tier served
	HitBytes  int64 `json:"hit_bytes"`  // bytes of these
	Misses    int64 `json:"misses"`     // reads that went to the store
	Kept      int64 `json:"kept"`       // extents added
	KeptBytes int64 `json:"kept_bytes"` // bytes of these
	NotKept   int64 `json:"not_kept"`   // extents for which there was no room, or objects that came faster than the disk writes
	Damaged   int64 `json:"damaged"`    // extents that failed their check, or that the disk did not deliver
}

type counts struct {
	hits, hitBytes, misses, kept, keptBytes, notKept, damaged atomic.Int64
}

// Open opens the tier of a dataset in a directory, which it makes if needed. The caller closes it.
func Open(dir string, o Options) (*Tier, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Fillers < 1 {
		o.Fillers = 4
	}
	sum := sha256.Sum256([]byte(o.Dataset))
	own := filepath.Join(dir, hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(own, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Stat(dir)
	if err == nil {
		err = owned.Check(dir, info)
	}
	if err != nil {
		return nil, err
	}
	t := &Tier{opts: o, readers: make(chan []byte, mostReaders)}
	for range mostReaders {
		t.readers <- nil
	}
	t.direct.Store(true)
	t.renew.Store(o.Renew)
	if t.room, err = openRoom(dir); err != nil {
		return nil, err
	}
	if o.Limit == 0 {
		t.opts.Limit, err = t.room.most()
	}
	if err == nil {
		err = t.open(own)
	}
	if err != nil {
		t.closeFiles()
		return nil, err
	}
	t.start(o.Fillers)
	return t, nil
}

func (t *Tier) open(own string) (err error) {
	if t.lock, err = openShared(filepath.Join(own, "lock")); err != nil {
		return err
	}
	if err := t.renewed(); err != nil {
		return err
	}
	if t.dir, err = os.Open(own); err != nil {
		return err
	}
	return makesUnnamed(t.dir, 0)
}

// Close ends filling, and closes the tier.
func (t *Tier) Close() error {
	t.stop()
	t.closeFiles()
	return nil
}

func (t *Tier) closeFiles() {
	for _, f := range []*os.File{t.dir, t.lock} {
		if f != nil {
			f.Close()
		}
	}
	t.follows.close()
	t.room.close()
}

func (t *Tier) fd() int { return int(t.dir.Fd()) }

// Stats returns what the tier did.
func (t *Tier) Stats() Stats {
	return Stats{
		Limit: t.opts.Limit, Used: t.room.used(), Hits: t.hits.Load(), HitBytes: t.hitBytes.Load(), Misses: t.misses.Load(),
		Kept: t.kept.Load(), KeptBytes: t.keptBytes.Load(), NotKept: t.notKept.Load(), Damaged: t.damaged.Load(),
	}
}

// As many reads run at a time, with as much memory each. More is read in several steps.
const (
	mostReaders = 32
	readBytes   = 512 << 10
)

// MemoryBytes is the most memory that filling the tier, and reading it, takes.
func (t *Tier) MemoryBytes() int64 {
	return int64(t.opts.Fillers)*(ExtentBytes+2*unit) + mostWaiting + mostReaders*(readBytes+2*unit)
}

// openFile opens a file in the dataset's directory for direct reads or writes, or normal ones where
// the file system has no direct ones. What is in the place of an extent and is no file, such as a
// FIFO, which nobody may ever write to, is not waited for, and no link is followed.
func (t *Tier) openFile(path string, flags int) (int, error) {
	flags |= unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK
	if t.direct.Load() {
		fd, err := unix.Openat(t.fd(), path, flags|unix.O_DIRECT, 0o600)
		if err != unix.EINVAL {
			return fd, err
		}
	}
	fd, err := unix.Openat(t.fd(), path, flags, 0o600)
	var st unix.Stat_t
	if err == nil && unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
		t.direct.Store(false) // it is the file system that has no direct reads
	}
	return fd, err
}

// get reads a part of an extent; false: the tier does not have it.
func (t *Tier) get(k Key, p []byte, offset int64) bool {
	fd, err := t.openFile(k.name(), unix.O_RDONLY)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	noted, err := t.read(fd, k, p, offset)
	if err == errVersion {
		return false // it stays until the store has shown which version is the present one
	}
	if err != nil {
		t.damaged.Add(1)
		t.opts.Logger.Debug("extent removed", "extent", k.name(), "reason", err)
		t.drop(fd, k)
		return false
	}
	t.use(k, noted)
	return true
}

// read reads a part of an extent, and returns when its use was noted last.
func (t *Tier) read(fd int, k Key, p []byte, offset int64) (noted int64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	return st.Mtim.Nano(), t.readPart(fd, k, p, offset, st.Size)
}

func (t *Tier) readPart(fd int, k Key, p []byte, offset, size int64) error {
	file := <-t.readers
	defer func() { t.readers <- file }()
	if file == nil {
		file = aligned(unit + readBytes)
	}
	header, data := file[:unit], file[unit:]
	if offset < chunkBytes { // one read for both
		header = file[:min(unit+readBytes, unit+roundUp(offset+int64(len(p)), chunkBytes), size)]
	}
	if err := readFull(fd, header, 0); err != nil {
		return err
	}
	n, err := check(file[:unit], k, size)
	if err != nil {
		return err
	}
	if offset+int64(len(p)) > n {
		return errDamaged
	}
	for len(p) > 0 {
		from := offset / chunkBytes * chunkBytes
		to := min(from+readBytes, roundUp(offset+int64(len(p)), chunkBytes), n)
		if from > 0 {
			if err := readFull(fd, data[:roundUp(to-from, unit)], unit+from); err != nil {
				return err
			}
		}
		if err := checkChunks(file[:unit], data[:to-from], int(from/chunkBytes)); err != nil {
			return err
		}
		got := copy(p, data[offset-from:to-from])
		p, offset = p[got:], offset+int64(got)
	}
	return nil
}

func readFull(fd int, p []byte, offset int64) error {
	for len(p) > 0 {
		n, err := unix.Pread(fd, p, offset)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF
		}
		p, offset = p[n:], offset+int64(n)
	}
	return nil
}

// drop removes an extent that was opened, if it is still the one that has its name.
func (t *Tier) drop(fd int, k Key) {
	var was, now unix.Stat_t
	if unix.Fstat(fd, &was) != nil || unix.Fstatat(t.fd(), k.name(), &now, 0) != nil || was.Ino != now.Ino {
		return
	}
	if unix.Unlinkat(t.fd(), k.name(), 0) == nil {
		t.room.give(was.Size)
	}
}

// remove removes the extent of a key, if there is one. One of another version stays.
func (t *Tier) remove(k Key) {
	fd, err := t.openFile(k.name(), unix.O_RDONLY)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if _, err := t.read(fd, k, nil, 0); err != errVersion {
		t.drop(fd, k)
	}
}

// has says whether there is an extent for a key, which is then used. It removes one of another version.
func (t *Tier) has(k Key) bool {
	fd, err := t.openFile(k.name(), unix.O_RDONLY)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	noted, err := t.read(fd, k, nil, 0)
	switch err {
	case nil:
		t.use(k, noted)
	case errVersion:
		t.drop(fd, k)
	}
	return err == nil
}

// put adds an extent of n bytes, which fill writes, in the place of one of another version: the store
// has just delivered this one. It is left out if there is no room.
func (t *Tier) put(k Key, n int, fill func(p []byte) error) error {
	if t.has(k) {
		return nil
	}
	size := fileBytes(int64(n))
	if !t.room.makeRoom(size, t.opts.Limit, t.giveWay) {
		t.notKept.Add(1)
		return nil
	}
	file := t.memory(int(size))
	defer t.files.Put(&file)
	err := fill(file[unit:][:n])
	if err == nil {
		seal(file, k, n)
		err = t.write(k, file)
	}
	if err != nil {
		t.room.give(size)
		if errors.Is(err, os.ErrExist) {
			return nil
		}
		return err
	}
	t.kept.Add(1)
	t.keptBytes.Add(int64(n))
	return nil
}

func (t *Tier) write(k Key, file []byte) error {
	fd, err := t.openFile(".", unix.O_TMPFILE|unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for at := 0; at < len(file); {
		n, err := unix.Pwrite(fd, file[at:], int64(at))
		if err != nil && err != unix.EINTR {
			return err
		}
		at += max(n, 0)
	}
	name, path := k.name(), fmt.Sprintf("/proc/self/fd/%d", fd)
	err = unix.Linkat(unix.AT_FDCWD, path, t.fd(), name, unix.AT_SYMLINK_FOLLOW)
	if err == unix.ENOENT {
		if err := unix.Mkdirat(t.fd(), name[:2], 0o700); err != nil && err != unix.EEXIST {
			return err
		}
		err = unix.Linkat(unix.AT_FDCWD, path, t.fd(), name, unix.AT_SYMLINK_FOLLOW)
	}
	return err
}

// memory returns n bytes of aligned memory.
func (t *Tier) memory(n int) []byte {
	if p, ok := t.files.Get().(*[]byte); ok && cap(*p) >= n {
		return (*p)[:n]
	}
	return aligned(n)
}

// aligned makes n bytes at an address that is good for direct reads and writes.
func aligned(n int) []byte {
	b := make([]byte, n+unit)
	skip := -int(uintptr(unsafe.Pointer(&b[0]))) & (unit - 1)
	return b[skip:][:n]
}
