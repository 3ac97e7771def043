package dataset

import (
	"cmp"
	"fmt"

	"golang.org/x/sys/unix"
)

// Identity distinguishes a file from a later one at the same path.
type Identity struct {
	Size    int64 // bytes
	ModTime int64 // ns since 1970; UnknownTime: not known yet
}

// unknown is the identity of a file that could not be examined.
var unknown = Identity{ModTime: UnknownTime}

// Known says whether the identity was ever learned.
func (id Identity) Known() bool { return id.ModTime != UnknownTime }

// A Part says which bytes of a file are needed; see LoadPart.
type Part func(head []byte, size int64) (from, to int64, ok bool)

const (
	HeadBytes  = 4096     // how much of a file's beginning a Part sees
	LeastSaved = 64 << 10 // bytes; how much must be skipped for two reads to beat one
)

// LoadPart reads sample i's file, or the part of it that is needed. It uses buf if its capacity
// suffices, else the memory that grow(n) returns: at least n bytes, or less to refuse
// ([ErrTooLarge]). It may be called concurrently, and allocates nothing unless it fails.
//
// If part is not nil, it is shown HeadBytes from the file's beginning and the file's size, and
// decides which other bytes are needed: those between two offsets, or all if ok is false. If
// that would skip less than LeastSaved bytes, the whole file is read; for a small file, without
// calling part. The returned slice, which lies in the caller's memory, has the file's length,
// but only the bytes that were read, counted by read, are valid, at their file offsets. The rest
// of the memory, and on an error all of it, may hold anything.
//
// Direct reads need memory aligned to 4096 bytes, with room for the file's size rounded up to a
// multiple of that; grow is asked for that much. With other memory, the file is read normally.
//
// The identity is that of the file that was opened, even if the read fails after that; it is not
// Known if the file could not be opened. The errors are FileErrors: [ErrChanged] if the identity
// differs from the index before or after the read, [ErrMissing], [ErrAway], [ErrStopped] if stop
// was closed while the read waited for bandwidth, and others; [OfFile] tells them apart.
func (d *Dataset) LoadPart(i int, buf []byte, grow func(n int) []byte, part Part, stop <-chan struct{}) (data []byte, read int64, id Identity, err error) {
	err = d.attempt(i, func() error {
		f, err := d.storage.open(d.dir, d.table.path(i))
		if id = f.id; err != nil {
			return err
		}
		defer d.storage.close(&f)
		var n int64
		data, n, err = d.load(i, &f, buf, grow, part, stop)
		read += n
		return err
	})
	return data, read, id, err
}

// attempt calls f, and once more if the storage was mounted again meanwhile, as far as can be told:
// the same directory may have been away and be back. Errors come as those of sample i.
func (d *Dataset) attempt(i int, f func() error) error {
	for again := true; ; again = false {
		if d.closed.Load() {
			return d.fail(i, unix.EBADF)
		}
		seen := d.seen.Load()
		err := f()
		if err == nil {
			return nil
		}
		if isStorage(err) {
			replaced, why := d.examine(seen, d.table)
			if again && why == nil && (replaced || OfFile(err)) {
				continue // it may have been away only until it was examined
			}
			err = cmp.Or(why, err)
		}
		return d.fail(i, err)
	}
}

func (d *Dataset) load(i int, f *file, buf []byte, grow func(n int) []byte, part Part, stop <-chan struct{}) ([]byte, int64, error) {
	if !d.Same(i, f.id) {
		return nil, 0, ErrChanged
	}
	n := int(f.id.Size)
	if room := f.room(n); cap(buf) < room && grow != nil {
		if p := grow(room); cap(p) >= n {
			buf = p
		}
	}
	if cap(buf) < n {
		return nil, 0, ErrTooLarge
	}
	read, err := d.fill(f, buf[:n], part, stop)
	if err != nil {
		return nil, read, err
	}
	after, err := d.storage.stat(f.fd)
	if err != nil {
		return nil, read, err // nothing is known about what was read
	}
	if after != f.id || !d.learn(i, f.id) {
		return nil, read, ErrChanged
	}
	return buf[:n], read, nil
}

// fill reads a file, or the part that is needed.
func (d *Dataset) fill(f *file, data []byte, part Part, stop <-chan struct{}) (read int64, err error) {
	n := len(data)
	from, to := 0, n
	if head := f.room(HeadBytes); part != nil && n >= head+LeastSaved {
		got, err := d.storage.fill(f, data, 0, head, stop)
		if read = int64(got); err != nil {
			return read, err
		}
		a, b, ok := part(data[:HeadBytes], int64(n))
		if from = head; ok && a >= 0 && a < b && b <= int64(n) && int64(n)-(b-a) >= LeastSaved {
			from, to = f.floor(max(head, int(a))), max(head, int(b))
		}
	}
	got, err := d.storage.fill(f, data[from:], int64(from), to-from, stop)
	return read + int64(got), err
}

// Check returns the current identity of sample i's file. It fails with a [FileError] if that is
// not the indexed one, or cannot be determined. It is Load without the reading.
func (d *Dataset) Check(i int) (id Identity, err error) {
	err = d.attempt(i, func() (err error) {
		if id, err = d.storage.look(d.dir, d.table.path(i)); err == nil && !d.learn(i, id) {
			err = ErrChanged
		}
		return err
	})
	return id, err
}

// Same says whether id is the indexed identity of sample i. If the index knows none (a manifest
// gave the header), any identity matches.
func (d *Dataset) Same(i int, id Identity) bool {
	want := d.Stat(i)
	return !want.Known() || want == id
}

// learn is Same, and records an identity that the index lacked, so that changes after the first
// read are noticed.
func (d *Dataset) learn(i int, id Identity) bool {
	d.table.mu.Lock()
	defer d.table.mu.Unlock()
	want := &d.table.row[i].id
	if !want.Known() {
		*want = id
	}
	return *want == id
}

// Accept replaces the recorded identity of sample i with id, in this process only. It is for a
// file that was corrupt and has since been repaired. The caller has checked that the new file
// is the image that the index describes.
func (d *Dataset) Accept(i int, id Identity) {
	d.table.mu.Lock()
	defer d.table.mu.Unlock()
	d.table.row[i].id = id
}

// Stat is sample i's indexed identity. It is not Known if the file could not be read, or if a
// manifest supplied the header and the file has not been read yet.
func (d *Dataset) Stat(i int) Identity {
	d.table.mu.Lock()
	defer d.table.mu.Unlock()
	return d.table.row[i].id
}

// fail adds the sample's path and maps errors to the package's own.
func (d *Dataset) fail(i int, err error) error {
	switch err {
	case unix.ENOENT, unix.ENOTDIR:
		err = ErrMissing
	case ErrNotFile:
		// A file that turned into something else since it was indexed.
		if d.Stat(i).Known() {
			err = fmt.Errorf("%w: %w", ErrChanged, ErrNotFile)
		}
	}
	return &FileError{Path: d.Path(i), Err: err}
}
