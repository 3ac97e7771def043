package target

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"sort"
	"sync"
)

// A Table is what is annotated of the samples of a dataset, by their numbers. It never changes, and
// is safe for concurrent use.
type Table struct {
	Keypoints int // most of an object

	b     *Builder
	image []int32  // by row; -1: none
	first []uint32 // by image: the place in order of its first object; and once more, the end
	order []uint32 // numbers of objects by image; nil: that is how they came

	// size is that of a row's upright image, of whose height and width coordinates are parts; nil:
	// not known.
	size func(row int) (height, width int)

	once   sync.Once
	digest string
}

// of is the image of a row; nil: it has none.
func (t *Table) of(row int) *image {
	if i := t.image[row]; i >= 0 {
		return &t.b.images[i]
	}
	return nil
}

// Bad is what is wrong with the annotations of a row; "": nothing.
func (t *Table) Bad(row int) string {
	if m := t.of(row); m != nil {
		return m.bad
	}
	return ""
}

// Mask is the path of a row's mask in the dataset of masks; "": it is in no file.
func (t *Table) Mask(row int) string {
	if m := t.of(row); m != nil {
		return m.mask
	}
	return ""
}

// Array is the path of a row's array in the dataset of a column; "": it has none.
func (t *Table) Array(row, column int) string {
	if i := t.image[row]; i >= 0 {
		return t.b.array(int(i), column)
	}
	return ""
}

// Text is a row's JSON object; nil: it has none.
func (t *Table) Text(row int) []byte {
	if m := t.of(row); m != nil {
		return m.text
	}
	return nil
}

// Size is the size of the image that was annotated, 0 if that is not said, and whether its
// coordinates are those of the upright image where both are possible.
func (t *Table) Size(row int) (height, width int, oriented bool) {
	m := t.of(row)
	if m == nil {
		return 0, 0, false
	}
	if h, w := t.scale(row); h > 0 {
		return h, w, true
	}
	return int(m.height), int(m.width), m.oriented
}

// scale is what a row's coordinates are to be multiplied by; 0: they are pixels.
func (t *Table) scale(row int) (height, width int) {
	m := t.of(row)
	if t.size == nil || m == nil || !m.oriented || m.height != 1 || m.width != 1 {
		return 0, 0
	}
	if height, width = t.size(row); width == 0 {
		return 0, 0
	}
	return height, width
}

// Count is the number of a row's objects.
func (t *Table) Count(row int) int {
	if i := t.image[row]; i >= 0 {
		return int(t.first[i+1] - t.first[i])
	}
	return 0
}

// Object is one of a row's objects. Its keypoints must not be changed.
func (t *Table) Object(row, k int) Object {
	o := t.b.object(t.number(row, k))
	if h, w := t.scale(row); h > 0 {
		o = o.scaled(float32(h), float32(w))
	}
	return o
}

func (o Object) scaled(h, w float32) Object {
	for i, by := range [4]float32{w, h, w, h} {
		o.Box[i] *= by
	}
	o.Keypoints = slices.Clone(o.Keypoints)
	for k := range o.Keypoints {
		o.Keypoints[k].X *= w
		o.Keypoints[k].Y *= h
	}
	return o
}

// number is that of one of a row's objects.
func (t *Table) number(row, k int) int {
	i := int(t.first[t.image[row]]) + k
	if t.order != nil {
		i = int(t.order[i])
	}
	return i
}

// Shapes are what a row's mask is drawn of.
func (t *Table) Shapes(row int) (list []Shape) {
	t.eachShape(row, func(data []byte) { list = append(list, decodeShape(data)) })
	return list
}

// eachShape calls f for each of a row's shapes, as it is encoded.
func (t *Table) eachShape(row int, f func(data []byte)) {
	image, all := t.image[row], t.b.shapes
	i := sort.Search(len(all), func(i int) bool { return all[i].image >= image })
	for ; image >= 0 && i < len(all) && all[i].image == image; i++ {
		f(t.b.memory.at(all[i].at, int(all[i].size)))
	}
}

// HasVisible reports whether any object says what is visible of it.
func (t *Table) HasVisible() bool { return len(t.b.visible) > 0 }

// MemoryBytes is what the table takes, without what is in a file.
func (t *Table) MemoryBytes() int64 {
	b := t.b
	n := b.memory.heap() + int64(4*(len(t.image)+len(t.first)+len(t.order)+len(b.ends))+12*len(b.keypoints)+16*len(b.shapes)+20*len(b.visible))
	for i := range b.images {
		m := &b.images[i]
		n += 184 + int64(len(m.path)+len(m.mask)+len(m.text)+len(m.bad)+len(m.sum))
	}
	for _, column := range b.arrays {
		n += 16 * int64(len(column))
		for _, path := range column {
			n += int64(len(path))
		}
	}
	return n
}

// Digest is a digest of everything in the table but the paths of images, for the fingerprint. It is
// computed once.
func (t *Table) Digest() string {
	t.once.Do(func() { t.digest = t.sum() })
	return t.digest
}

func (t *Table) sum() string {
	sum, buf := sha256.New(), []byte(nil)
	objects := func(row int) func(int) Object {
		return func(k int) Object { return t.b.object(t.number(row, k)) }
	}
	for row := range t.image {
		m := t.of(row)
		buf = append(buf[:0], bit(m != nil), bit(t.Bad(row) != ""))
		if m != nil {
			if m.sum == nil {
				m.sum = sumOf(m, t.Count(row), objects(row), func(f func([]byte)) { t.eachShape(row, f) })
			}
			h, w := t.scale(row)
			buf = append(buf, m.sum...)
			buf = binary.LittleEndian.AppendUint64(buf, uint64(h)<<32|uint64(w))
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

// sumOf is a digest of what is said of an image, but for its path and for what is bad of it.
func sumOf(m *image, count int, object func(k int) Object, shapes func(func(data []byte))) []byte {
	sum, le := sha256.New(), binary.LittleEndian
	var buf []byte
	text := func(s []byte) { buf = append(le.AppendUint64(buf, uint64(len(s))), s...) }
	floats := func(values ...float32) {
		for _, v := range values {
			buf = le.AppendUint32(buf, math.Float32bits(v))
		}
	}
	for _, v := range []int{int(m.height), int(m.width), int(bit(m.oriented)), count} {
		buf = le.AppendUint64(buf, uint64(v))
	}
	text([]byte(m.mask))
	text(m.text)
	for k := range count {
		o := object(k)
		buf = le.AppendUint64(buf, uint64(o.ID))
		for _, v := range []int{int(o.Label), int(o.Flags), len(o.Keypoints), int(bit(o.Visible != nil))} {
			buf = le.AppendUint32(buf, uint32(v))
		}
		floats(o.Box[:]...)
		for _, p := range o.Keypoints {
			floats(p.X, p.Y, p.V)
		}
		if o.Visible != nil {
			floats(o.Visible[:]...)
		}
		if len(buf) > 4096 {
			sum.Write(buf)
			buf = buf[:0]
		}
	}
	shapes(text)
	sum.Write(buf)
	return sum.Sum(nil)
}

// encode writes a shape: its class, the number of its polygons, the length of each, and their
// numbers; or -1 and the runs.
func (s *Shape) encode() []byte {
	le := binary.LittleEndian
	out := le.AppendUint32(nil, uint32(s.Class))
	if s.Polygons == nil {
		out = le.AppendUint32(out, math.MaxUint32)
		for _, n := range s.Runs {
			out = le.AppendUint32(out, n)
		}
		return out
	}
	out = le.AppendUint32(out, uint32(len(s.Polygons)))
	for _, p := range s.Polygons {
		out = le.AppendUint32(out, uint32(len(p)))
	}
	for _, v := range slices.Concat(s.Polygons...) {
		out = le.AppendUint64(out, math.Float64bits(v))
	}
	return out
}

func decodeShape(data []byte) (s Shape) {
	next := func() (v uint32) {
		v, data = binary.LittleEndian.Uint32(data), data[4:]
		return v
	}
	s.Class = int32(next())
	polygons := next()
	if polygons == math.MaxUint32 {
		for len(data) > 0 {
			s.Runs = append(s.Runs, next())
		}
		return s
	}
	for range polygons {
		s.Polygons = append(s.Polygons, make([]float64, next()))
	}
	for _, p := range s.Polygons {
		for i := range p {
			p[i] = math.Float64frombits(uint64(next()) | uint64(next())<<32)
		}
	}
	return s
}

// Scale has the coordinates of images that were annotated as 1x1, and are oriented, be parts of
// their upright height and width, which size returns by row; 0: not known. It must be called before
// the Table is used.
func (t *Table) Scale(size func(row int) (height, width int)) { t.size = size }
