package target

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"unsafe"
)

// A Table holds the annotations of a dataset's samples, by their numbers. It never changes, and is
// safe for concurrent use.
type Table struct {
	Keypoints int // most keypoints of an object

	b     *Builder
	image []int32 // by row; -1: none

	// size is the size of a row's upright image, if coordinates are fractions of it; nil: unknown.
	size func(row int) (height, width int)

	once   sync.Once
	digest string
}

// none is the image of rows without one.
var none image

// of returns the image of a row.
func (t *Table) of(row int) *image {
	if i := t.image[row]; i >= 0 {
		return &t.b.images[i]
	}
	return &none
}

// Bad is what is wrong with a row's annotations; "": nothing.
func (t *Table) Bad(row int) string { return t.of(row).bad }

// Mask is the path of a row's mask in the dataset of masks; "": the mask is not in a file.
func (t *Table) Mask(row int) string { return t.of(row).mask }

// Text is a row's JSON object; nil: none.
func (t *Table) Text(row int) []byte { return t.of(row).text }

// Array is the path of a row's array in the dataset of a column; "": none.
func (t *Table) Array(row, column int) string {
	if i := t.image[row]; i >= 0 {
		return t.b.array(int(i), column)
	}
	return ""
}

// Size is the size of the annotated image, 0 if unknown, and whether coordinates refer to the
// upright image, if both are possible.
func (t *Table) Size(row int) (height, width int, oriented bool) {
	if h, w := t.scale(row); h > 0 {
		return h, w, true
	}
	m := t.of(row)
	return int(m.height), int(m.width), m.oriented
}

// Scale makes the coordinates of images that were annotated as 1x1, and are oriented, fractions of
// their upright height and width. size returns these by row; 0: unknown. Scale must be called
// before the Table is used.
func (t *Table) Scale(size func(row int) (height, width int)) { t.size = size }

// scale is the factor of a row's coordinates; 0: they are pixels.
func (t *Table) scale(row int) (height, width int) {
	if m := t.of(row); t.size == nil || !m.oriented || m.height != 1 || m.width != 1 {
		return 0, 0
	}
	if height, width = t.size(row); width == 0 {
		return 0, 0
	}
	return height, width
}

// Count counts a row's objects.
func (t *Table) Count(row int) int {
	if i := t.image[row]; i >= 0 {
		return int(t.b.entryLists[i].objects)
	}
	return 0
}

// Objects returns a row's objects, in the order of the annotations.
func (t *Table) Objects(row int) (list []Object) {
	h, w := t.scale(row)
	for _, e := range t.entries(row) {
		if e.isShape {
			continue
		}
		o := decodeObject(e.data)
		if h > 0 {
			o.scale(float32(h), float32(w))
		}
		list = append(list, o)
	}
	return list
}

func (o *Object) scale(h, w float32) {
	for i, by := range [4]float32{w, h, w, h} {
		o.Box[i] *= by
	}
	for k := range o.Keypoints {
		o.Keypoints[k].X *= w
		o.Keypoints[k].Y *= h
	}
}

// Shapes are the shapes of which a row's mask is drawn.
func (t *Table) Shapes(row int) (list []Shape) {
	for _, e := range t.entries(row) {
		if e.isShape {
			list = append(list, decodeShape(e.data))
		}
	}
	return list
}

// entries returns the entries of a row's image.
func (t *Table) entries(row int) []entry {
	if i := t.image[row]; i >= 0 {
		return t.b.entries(int(i))
	}
	return nil
}

// HasVisible reports whether any object has a visible part.
func (t *Table) HasVisible() bool { return t.b.visible }

// MemoryBytes is the memory of the table, without files.
func (t *Table) MemoryBytes() int64 {
	b := t.b
	const perPath = 48 // of a map entry, on average
	n := b.memory.heap() + int64(4*len(t.image))
	for i := range b.images {
		m := &b.images[i]
		n += perPath + int64(unsafe.Sizeof(*m)+unsafe.Sizeof(entryList{})) + int64(len(m.path)+len(m.mask)+len(m.bad))
		if b.whole == nil || m.changed { // otherwise, the text is in the mapped file
			n += int64(len(m.text))
		}
	}
	for _, column := range b.arrays {
		n += 16 * int64(len(column))
		for _, path := range column {
			n += int64(len(path))
		}
	}
	return n
}

// Digest covers everything in the table except for the paths of images, for the fingerprint. It is
// computed once.
func (t *Table) Digest() string {
	t.once.Do(func() { t.digest = t.sum() })
	return t.digest
}

func (t *Table) sum() string {
	sum, buf := sha256.New(), []byte(nil)
	for row, i := range t.image {
		buf = append(buf[:0], bit(i >= 0), bit(t.Bad(row) != ""))
		if i >= 0 {
			h, w := t.scale(row)
			buf = append(buf, t.b.sumOf(int(i), nil)...)
			buf = le.AppendUint64(buf, uint64(h)<<32|uint64(w))
		}
		sum.Write(buf)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func bit(on bool) byte {
	if on {
		return 1
	}
	return 0
}

// sumOf is a digest of the annotations of image i, without its path and what is bad about it.
// entries are the image's; nil: they must still be found.
func (b *Builder) sumOf(i int, entries []entry) []byte {
	m, s := &b.images[i], b.entryLists[i]
	if m.kept != nil && !m.changed && s.last == nowhere {
		return m.kept[:sha256.Size]
	}
	if entries == nil {
		entries = b.entries(i)
	}
	var buf []byte
	for _, v := range []int32{m.height, m.width, int32(bit(m.oriented)), s.objects} {
		buf = le.AppendUint64(buf, uint64(v))
	}
	buf = appendText(appendText(buf, []byte(m.mask)), m.text)
	for _, e := range entries {
		buf = appendText(append(buf, bit(e.isShape)), e.data)
	}
	sum := sha256.Sum256(buf)
	return sum[:]
}

func appendText(to, text []byte) []byte {
	return append(le.AppendUint64(to, uint64(len(text))), text...)
}
