package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/pages"
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

// HeadBytes is how much of a file's beginning a Part sees, at least.
const HeadBytes = 4096

// A reader reads samples of a dataset.
type reader struct {
	table    *table
	storages []*storage // of the datasets of a list, in order, or of a single dataset
	least    int        // see LeastSaved
	closed   atomic.Bool
	pages    atomic.Pointer[pages.Cache] // see KeepPages
}

// newReader makes a reader for the rows of a table, which are in storages.
func newReader(t *table, storages []*storage) *reader {
	r := &reader{table: t, storages: storages, least: 64 << 10}
	if slices.ContainsFunc(storages, func(s *storage) bool { return s.src.remote != nil }) {
		r.least = 4 << 20
	}
	return r
}

// storageOf returns the storage that holds sample i.
func (r *reader) storageOf(i int) *storage {
	return r.storages[sort.Search(len(r.storages)-1, func(k int) bool { return i < r.storages[k].src.end })]
}

// LeastSaved is how many bytes a second read must save to be worthwhile. A store takes tens of
// milliseconds to answer, so there it is what the store sends in that time.
func (r *reader) LeastSaved() int64 { return int64(r.least) }

// LeastInOne is how many bytes one read of a part must save, compared to one of the whole file.
const LeastInOne = 4 << 10

// LoadPart reads sample i's file for an epoch, or the part of it that is needed. The epoch says for
// how long unpacked pages are kept ([pages.Options].Once). It uses buf if its capacity
// suffices, else the memory that grow(n) returns: at least n bytes, or less to refuse
// ([errTooLarge]). It may be called concurrently, and allocates nothing unless it fails.
//
// If need is not nil, it gets HeadBytes from the file's beginning and the file's size, and decides
// which other bytes are needed: those between two offsets, or all if ok is false. If that would
// save less than LeastSaved bytes, the whole file is read; for a small file, without calling need.
// If first is more than HeadBytes, it is the length of the first read, which the caller expects to
// suffice; need then gets that many bytes, and is called even for small savings. A sample with a
// checksum in its archive is always read as a whole then, to compare it. The returned slice is in
// the caller's memory and has the file's length, but only the bytes that were read are valid, at
// their file offsets; read counts them. All other memory, and on an error all of it, may hold
// anything.
//
// Direct reads need memory aligned to 4096 bytes, with room for the file's size rounded up to a
// multiple of that; grow is asked for that much. With other memory, the file is read normally.
//
// The identity is that of the opened file, even if the read fails later; it is not Known if the
// file could not be opened. The errors are FileErrors: [ErrChanged] if the identity differs from
// the index before or after the read, [ErrMissing], [archive.ErrBad] if the sample cannot be
// unpacked, [ErrAway], [ErrStopped] if the context ended while the read waited for bandwidth or a
// store, and others; package fault classifies them.
func (r *reader) LoadPart(ctx context.Context, i, epoch int, buf []byte, grow func(n int) []byte, need Part, first int64) (data []byte, read int64, id Identity, err error) {
	err = r.attempt(i, func(s *storage) error {
		one := reading{reader: r, ctx: ctx, i: i, epoch: epoch, storage: s, buf: buf, grow: grow}
		one.file, err = s.openRow(ctx, r.table, i)
		if id = one.file.id; err != nil {
			return err
		}
		defer s.close(&one.file)
		var n int64
		data, n, err = one.load(need, first)
		if read += n; s.src.remote != nil && (errors.Is(err, ErrChanged) || errors.Is(err, ErrMissing)) {
			id = unknown // as if the file could not be opened
		}
		return err
	})
	return data, read, id, err
}

// attempt calls f, and calls it again if the storage was apparently mounted again meanwhile: the
// same directory may have been away and be back. It returns errors as errors of sample i.
func (r *reader) attempt(i int, f func(s *storage) error) error {
	s := r.storageOf(i)
	for again := true; ; again = false {
		if r.closed.Load() {
			return r.fail(i, unix.EBADF)
		}
		seen := s.src.seen.Load()
		err := f(s)
		if err == nil {
			return nil
		}
		if s.src.remote == nil && isStorage(err) {
			replaced, why := s.src.examine(seen, r.table)
			if again && why == nil && (replaced || fault.Of(err) == fault.File) {
				continue // the storage may be back since the examination
			}
			err = cmp.Or(why, err)
		}
		return r.fail(i, err)
	}
}

// A reading is the read of one sample, whose file is open.
type reading struct {
	*reader
	ctx     context.Context
	i       int
	epoch   int
	storage *storage
	file    file
	buf     []byte             // the caller's memory
	grow    func(n int) []byte // nil: there is no other memory
}

// room provides n bytes of memory, or least bytes if n are not available.
func (r *reading) room(n, least int) error {
	if cap(r.buf) < n && r.grow != nil {
		if p := r.grow(n); cap(p) >= least {
			r.buf = p
		}
	}
	if cap(r.buf) < least {
		return errTooLarge
	}
	return nil
}

// load is LoadPart for the opened file.
func (r *reading) load(need Part, first int64) ([]byte, int64, error) {
	f := &r.file
	if !r.Same(r.i, f.id) {
		return nil, 0, ErrChanged
	}
	if f.coded() {
		return r.unpack()
	}
	if first > HeadBytes && f.place != nil && f.place.Sum != archive.NoSum && r.storage.check {
		need = nil // comparing the checksum is worth more than reading less
	}
	n := f.skew + int(f.id.Size)
	if err := r.room(f.room(n), n); err != nil {
		return nil, 0, err
	}
	read, err := r.storage.fillPart(r.ctx, f, r.buf[:n], need, first, r.least)
	if err == nil {
		err = r.checkUnchanged()
	}
	if whole := read >= f.id.Size; err == nil && whole && f.place != nil && r.storage.check {
		err = f.place.Check(r.buf[f.skew:n])
	}
	if err != nil {
		return nil, read, err
	}
	return r.buf[f.skew:n], read, nil
}

// checkUnchanged returns ErrChanged if the file changed since it was opened, or if another reader
// has seen another version of it.
func (r *reading) checkUnchanged() error {
	err := r.storage.unchanged(&r.file)
	if err == nil && !r.table.learn(r.i, r.file.id, r.file.object.Version) {
		err = ErrChanged
	}
	return err
}

// unpack reads a coded sample: from a shared page if those are kept and there is room, else by
// itself.
func (r *reading) unpack() ([]byte, int64, error) {
	if c := r.pages.Load(); r.file.place.Packed() {
		if first, end := r.table.page(r.i); c.Keeps(end - first) {
			data, read, err := r.fromPage(c, first, end-first)
			if !errors.Is(err, errAlone) {
				return data, read, err
			}
		}
	}
	return r.unpackAlone()
}

// unpackAlone unpacks a sample to the beginning of the caller's memory, and reads the stored bytes
// into the rest of it.
func (r *reading) unpackAlone() ([]byte, int64, error) {
	f := &r.file
	n := f.skew + int(f.place.Length)
	from := (int(f.place.Room()) + directUnit - 1) &^ (directUnit - 1)
	if err := r.room(from+f.room(n), from+n); err != nil {
		return nil, 0, err
	}
	buf := r.buf[:cap(r.buf)]
	got, err := r.storage.fill(r.ctx, f, buf[from:], 0, n)
	if err == nil {
		err = r.checkUnchanged()
	}
	if err != nil {
		return nil, int64(got), err
	}
	data, err := f.place.Unpack(buf[:0:from], buf[from+f.skew:from+n])
	return data, int64(got), err
}

// fillPart reads a file, or the needed part if that saves at least least bytes, or probably lies in
// the first read.
func (s *storage) fillPart(ctx context.Context, f *file, data []byte, need Part, first int64, least int) (read int64, err error) {
	if first > HeadBytes {
		least = LeastInOne
	} else {
		first = HeadBytes
	}
	n := len(data) - f.skew
	from, to := 0, len(data)
	if head := f.room(f.skew + int(first)); need != nil && len(data) >= head+least {
		got, err := s.fill(ctx, f, data, 0, head)
		if read = int64(got); err != nil {
			return read, err
		}
		a, b, ok := need(data[f.skew:f.skew+int(first)], int64(n))
		if from = head; ok && a >= 0 && a < b && b <= int64(n) && n-int(b-a) >= least {
			from, to = f.floor(max(head, f.skew+int(a))), max(head, f.skew+int(b))
		}
	}
	if from == to {
		return read, nil
	}
	got, err := s.fill(ctx, f, data[from:], int64(from), to-from)
	return read + int64(got), err
}

// Check returns the current identity of sample i's file, without reading the file. It fails with a
// [FileError] if the identity is not the indexed one, or cannot be determined. It does not ask
// stores: they deliver the indexed version or none.
func (r *reader) Check(i int) (id Identity, err error) {
	err = r.attempt(i, func(s *storage) (err error) {
		if s.src.remote != nil {
			id = r.Stat(i)
			return nil
		}
		if id, err = s.look(s.src.file(r.table, i)); err != nil {
			return err
		}
		if place, whole := r.table.place(i); place != nil {
			if id != whole {
				id = unknown
				return ErrChanged
			}
			id.Size = place.Size
		}
		if !r.table.learn(i, id, "") {
			err = ErrChanged
		}
		return err
	})
	return id, err
}

// Same says whether id is the indexed identity of sample i. If the index knows none (a manifest
// gave the header), any identity matches.
func (r *reader) Same(i int, id Identity) bool {
	want := r.Stat(i)
	return !want.Known() || want == id
}

// Accept replaces the recorded identity of sample i in this process only, for a file that was
// corrupt and has been repaired. The caller has checked that the new file is the image that the
// index describes.
func (r *reader) Accept(i int, id Identity) {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	r.table.row[i].id = id
}

// Stat is sample i's indexed identity. It is not Known if the file could not be read, or if a
// manifest supplied the header and the file has not been read yet.
func (r *reader) Stat(i int) Identity {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	return r.table.row[i].id
}

// fail adds the sample's path and translates errors to the package's own.
func (r *reader) fail(i int, err error) error {
	switch err {
	case unix.ENOENT, unix.ENOTDIR:
		err = ErrMissing
	case ErrNotFile:
		// The file became something else since it was indexed.
		if r.Stat(i).Known() {
			err = fmt.Errorf("%w: %w", ErrChanged, ErrNotFile)
		}
	}
	return &FileError{Path: r.table.path(i), Err: err}
}
