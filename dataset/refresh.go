package dataset

import (
	"hash/maphash"
	"sync"
)

// rowFinder finds rows of an earlier table by path. Most datasets change little, so a row is
// usually found right where the previous match suggests. A hash table of 8 to 16 bytes per row
// is built only when that fails.
type rowFinder struct {
	table *store

	once  sync.Once
	seed  maphash.Seed
	slots []uint32 // row + 1, open addressing; the length is a power of two
}

// find returns the row with that path, trying guess first.
func (f *rowFinder) find(path string, guess int) (int, bool) {
	if guess >= 0 && guess < f.table.rows() && f.table.path(guess) == path {
		return guess, true
	}
	f.once.Do(f.build)
	mask := uint64(len(f.slots) - 1)
	for k := maphash.String(f.seed, path) & mask; f.slots[k] != 0; k = (k + 1) & mask {
		if row := int(f.slots[k] - 1); f.table.path(row) == path {
			return row, true
		}
	}
	return 0, false
}

func (f *rowFinder) build() {
	n := 2
	for n < 2*f.table.rows() {
		n *= 2
	}
	f.seed, f.slots = maphash.MakeSeed(), make([]uint32, n)
	mask := uint64(n - 1)
	for row := range f.table.rows() {
		k := maphash.String(f.seed, f.table.path(row)) & mask
		for f.slots[k] != 0 {
			k = (k + 1) & mask
		}
		f.slots[k] = uint32(row + 1)
	}
}

// reuse copies row i from the earlier table if its file is unchanged. It never takes a row
// whose header came from a manifest, since such a row has no identity and does not describe the
// file itself, nor a row that contradicts what the manifest says now.
func (w *scanWorker) reuse(i int) bool {
	if w.previous == nil {
		return false
	}
	from, ok := w.previous.find(w.table.path(i), i+w.shift)
	if !ok {
		return false
	}
	w.shift = from - i
	old := w.previous.table
	was, known := old.identity(from)
	if !known || !w.asPromised(i, old, from) {
		return false
	}
	r := w.roots.use()
	now, err := w.storage.look(r.fd, w.table.path(i))
	r.release()
	if err != nil || now != was {
		return false
	}
	return w.copyRow(i, old, from)
}

func (w *scanWorker) asPromised(i int, old *store, from int) bool {
	said, given := w.table.promise(i)
	text, _ := old.problem(from)
	fine := text == ""
	if !given {
		return fine || old.heights[from] == 0 && old.widths[from] == 0
	}
	return fine && said.holds(Header{Height: int(old.heights[from]), Width: int(old.widths[from])})
}

func (w *scanWorker) copyRow(i int, old *store, from int) bool {
	t := w.table
	if text, _ := old.problem(from); text != "" {
		w.found.add(uint32(i), text, false)
	} else {
		format, err := w.format(old.formatNames[old.formats[from]])
		if err != nil {
			return false
		}
		t.formats[i] = format
		t.heights[i], t.widths[i], t.orients[i] = old.heights[from], old.widths[from], old.orients[from]
	}
	was, _ := old.identity(from)
	t.setIdentity(i, was)
	return true
}
