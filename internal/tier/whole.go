package tier

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

// errNoMemory means that the caller has no memory for an extent.
var errNoMemory = errors.New("no memory for an extent")

// Part says which bytes of an object of size bytes are needed after the first ones, head. If ok is
// false, all are.
type Part func(head []byte, size int64) (from, to int64, ok bool)

// Cost is how much of the limit an object of n bytes takes.
func Cost(n int64) int64 {
	cost := n / ExtentBytes * fileBytes(ExtentBytes)
	if rest := n % ExtentBytes; rest > 0 {
		cost += fileBytes(rest)
	}
	return cost
}

// Get reads a whole object into p, which has its size; false: the tier lacks it.
func (t *Tier) Get(o *Object, p []byte) bool {
	for _, x := range o.piecesOf(0, o.Size) {
		if t.getWaiting(x.key, p[x.from:x.to]) || t.get(x.key, p[x.from:x.to], 0) {
			continue
		}
		if t.misses.Add(1); o.Size > ExtentBytes {
			t.Drop(o) // without this part, the others are useless
		}
		return false
	}
	t.hits.Add(1)
	t.hitBytes.Add(o.Size)
	return true
}

// GetPart reads an object of at most ExtentBytes whose size only the tier knows, into the memory
// that grow returns for all of it: the first bytes, and then the part that these show to be needed,
// each at its offset. It returns how many bytes it read; false: the tier lacks the object, or grow
// has refused.
func (t *Tier) GetPart(o *Object, first int64, grow func(n int) []byte, part Part) (p []byte, read int64, ok bool) {
	ok = t.look(newKey(o.Name, o.Version, 0), 0, first, func(e *extent) error {
		if p = grow(int(e.n)); cap(p) < int(e.n) {
			return errNoMemory
		}
		p, first = p[:e.n], min(first, e.n)
		if read = first; first == e.n {
			return e.copy(p, 0)
		}
		if err := e.copy(p[:first], 0); err != nil {
			return err
		}
		from, to, some := part(p[:first], e.n)
		if !some {
			from, to = first, e.n
		}
		from = max(from, first)
		to = max(from, min(to, e.n))
		read += to - from
		return e.copy(p[from:to], from)
	})
	if ok {
		t.hits.Add(1)
		t.hitBytes.Add(read)
	}
	return p, read, ok
}

// Put keeps an object. Its bytes are copied, and written later; Get finds them meanwhile. If too
// many are waiting, the object is not kept.
func (t *Tier) Put(o *Object, data []byte) {
	for _, x := range o.piecesOf(0, o.Size) {
		if t.want(x.key, true) {
			continue
		}
		if !t.keepLater(x, data[x.from:x.to], nil) {
			t.notKept.Add(1)
			return
		}
	}
}

// Drop removes an object, even if it still waits to be written.
func (t *Tier) Drop(o *Object) {
	defer t.roomCame()
	for _, x := range o.piecesOf(0, o.Size) {
		if !t.want(x.key, false) {
			t.shelf.remove(x.key)
		}
	}
}

// Instead closes the tier and returns the tier of another dataset in the same directory, with the
// same options, after Renew. Extents of the closed tier give way before any others.
func (t *Tier) Instead(dataset string) (*Tier, error) {
	o := t.opts
	o.Dataset = dataset
	other, err := Open(filepath.Dir(t.shelf.dir.Name()), o)
	if err != nil {
		return nil, err
	}
	other.Renew()
	_ = os.Chtimes(t.shelf.lock.Name(), time.Time{}, time.Unix(0, 0))
	return other, t.Close()
}
