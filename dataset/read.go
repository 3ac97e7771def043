package dataset

import (
	"cmp"
	"fmt"

	"golang.org/x/sys/unix"
)

// Identity is what tells a file from a later one at the same path.
type Identity struct {
	Size    int64 // bytes
	ModTime int64 // ns since 1970; UnknownTime: not known yet
}

// unknown is the identity of a file that could not be looked at.
var unknown = Identity{ModTime: UnknownTime}

// Known says whether the identity was ever learned.
func (id Identity) Known() bool { return id.ModTime != UnknownTime }

func identityOf(st *unix.Stat_t) Identity {
	return Identity{Size: st.Size, ModTime: mtimeOf(st)}
}

// Read is Load for who never calls a read off and does not ask what was read.
func (d *Dataset) Read(i int, buf []byte, grow func(n int) []byte) ([]byte, error) {
	data, _, err := d.Load(i, buf, grow, nil)
	return data, err
}

// Load reads sample i's whole file into buf if it has the capacity, else into what
// grow(n) returns (at least n bytes, or less to refuse: [ErrTooLarge]), and returns
// the identity under which it was read: that of the open file, also where the read
// fails after the file was opened, so that what is found wrong can be remembered of
// just this version of it. Where it could not be opened the identity is not Known.
//
// Direct reads want memory at a multiple of 4096 with room for the file's size
// rounded up to such a multiple, which is what grow is asked for; where a device
// wants more than 4096 bytes at a time, grow is asked for a multiple of that, and
// the memory has to be aligned to it. Memory that is not, or has only room for the
// file, serves too, but the file is then read in the ordinary way.
//
// The bytes returned are the caller's memory; what lies behind them up to its
// capacity, and on an error all of it, may hold anything. An identity that differs
// from the index before or after the read is [ErrChanged], a file that is gone
// [ErrMissing]; a read that was still waiting for bandwidth when stop was closed is
// [ErrStopped]; all in a [FileError], like what the system reports, as [OfFile] tells
// apart. Where the storage was mounted anew since the last read, Load goes on with
// what stands at the dataset's path now, and fails with [ErrAway] where that is not
// the dataset. Load may be called concurrently, and allocates nothing unless it fails.
func (d *Dataset) Load(i int, buf []byte, grow func(n int) []byte, stop <-chan struct{}) ([]byte, Identity, error) {
	data, _, id, err := d.LoadPart(i, buf, grow, nil, stop)
	return data, id, err
}

// LoadPart is Load for who needs only a part of the file. HeadBytes at its beginning are
// read first, and part says from them and from the file's size which others are needed:
// those from one offset to another, or all where ok is false. Where that would not leave
// out LeastSaved, all of the file is read; a small one without asking. The bytes returned
// are as many as the file has, but hold only what was read, at its place; the rest may
// hold anything. read is how many of them were read. A nil part is Load.
func (d *Dataset) LoadPart(i int, buf []byte, grow func(n int) []byte, part Part, stop <-chan struct{}) (data []byte, read int64, id Identity, err error) {
	for again := true; ; {
		r := d.roots.use()
		var n int64
		data, n, id, err = d.loadFrom(r, i, buf, grow, part, stop)
		read += n
		if err == nil {
			return data, read, id, nil
		}
		if isStorage(err) {
			replaced, why := d.roots.examine(r, d.table)
			if replaced && again {
				again = false
				continue
			}
			err = cmp.Or(why, err)
		}
		return nil, read, id, d.fail(i, err)
	}
}

// loadFrom is LoadPart from a given root, which it releases.
func (d *Dataset) loadFrom(r *root, i int, buf []byte, grow func(n int) []byte, part Part, stop <-chan struct{}) ([]byte, int64, Identity, error) {
	f, err := d.storage.open(r.fd, d.table.cpath(i))
	r.release()
	if err != nil {
		return nil, 0, f.id, err
	}
	defer d.storage.close(&f)
	data, read, err := d.load(i, &f, buf, grow, part, stop)
	return data, read, f.id, err
}

// A Part says which bytes of a file are needed, see LoadPart.
type Part func(head []byte, size int64) (from, to int64, ok bool)

// HeadBytes is how much of a file a Part is shown.
const HeadBytes = 4096

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
	after, _, err := d.storage.stat(f.fd)
	if err != nil {
		return nil, read, err // nothing is known of what was read
	}
	if after != f.id {
		return nil, read, ErrChanged
	}
	if !d.learn(i, f.id) {
		return nil, read, ErrChanged
	}
	return buf[:n], read, nil
}

// LeastSaved is how many bytes have to be left out before two reads are better than one.
const LeastSaved = 64 << 10

// fill reads a file, or the part of it that is needed.
func (d *Dataset) fill(f *file, data []byte, part Part, stop <-chan struct{}) (read int64, err error) {
	n := len(data)
	from, to := 0, n
	if head := f.room(HeadBytes); part != nil && n >= head+LeastSaved {
		if read, err = d.piece(f, data, 0, head, stop); err != nil {
			return read, err
		}
		a, b, ok := part(data[:HeadBytes], int64(n))
		if from = head; ok && a >= 0 && a < b && b <= int64(n) && int64(n)-(b-a) >= LeastSaved {
			from, to = max(head, int(a)), max(head, int(b))
			if f.unit > 0 {
				from &^= f.unit - 1
			}
		}
	}
	more, err := d.piece(f, data, from, to, stop)
	return read + more, err
}

// piece reads some bytes of a file to their place.
func (d *Dataset) piece(f *file, data []byte, from, to int, stop <-chan struct{}) (int64, error) {
	got, err := d.storage.fill(f, data[from:], int64(from), to-from, stop)
	if err == nil && got < to-from {
		err = ErrChanged
	}
	return int64(got), err
}

// Check returns the identity that sample i's file has now, and an error in a
// [FileError] if it is not the indexed one, or where that cannot be found out: as
// Load, of which it is the part that takes no reading.
func (d *Dataset) Check(i int) (Identity, error) {
	for again := true; ; {
		r := d.roots.use()
		now, err := d.storage.look(r.fd, d.table.path(i))
		r.release()
		if isStorage(err) {
			replaced, why := d.roots.examine(r, d.table)
			if replaced && again {
				again = false
				continue
			}
			err = cmp.Or(why, err)
		}
		if err != nil {
			return now, d.fail(i, err)
		}
		return now, d.check(i, now)
	}
}

// check holds an identity against the index.
func (d *Dataset) check(i int, now Identity) error {
	if !d.Same(i, now) || !d.learn(i, now) {
		return d.fail(i, ErrChanged)
	}
	return nil
}

// Same says whether id is the indexed identity of sample i. Where the index
// knows none (a manifest that gives the header), any identity is.
func (d *Dataset) Same(i int, id Identity) bool {
	want, known := d.table.identity(i)
	if !known || want == id {
		return true
	}
	// Accept may have been half way through replacing it.
	d.learning.Lock()
	defer d.learning.Unlock()
	want, _ = d.table.identity(i)
	return want == id
}

// learn keeps an identity that the index did not have, so that from the first
// read on a change is noticed. It returns whether id is what is known now: of
// two first readers who saw different files only one may be right.
func (d *Dataset) learn(i int, id Identity) bool {
	if want, known := d.table.identity(i); known {
		return want == id
	}
	d.learning.Lock()
	defer d.learning.Unlock()
	if want, known := d.table.identity(i); known {
		return want == id
	}
	d.table.setIdentity(i, id)
	return true
}

// fail gives an error the sample's path and the package's words for it.
func (d *Dataset) fail(i int, err error) error {
	switch err {
	case unix.ENOENT, unix.ENOTDIR:
		err = ErrMissing
	case ErrNotFile:
		// What was a file when it was indexed has changed into something else.
		if _, known := d.table.identity(i); known {
			err = fmt.Errorf("%w: %w", ErrChanged, ErrNotFile)
		}
	}
	return &FileError{Path: d.Path(i), Err: err}
}
