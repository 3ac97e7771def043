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

// A Table is what is annotated of the samples of a dataset, by their numbers. It never changes, and is
// safe for concurrent use.
type Table struct {
	Keypoints int // most of an object

	b     *Builder
	image []int32  // by row; -1: none
	first []uint32 // by image: the place in order of its first object; and once more, the end
	order []uint32 // numbers of objects by image; nil: that is how they came

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

// Text is a row's JSON object; nil: it has none.
func (t *Table) Text(row int) []byte {
	if m := t.of(row); m != nil {
		return m.text
	}
	return nil
}

// Size is the size of the image that was annotated, 0 if that is not said, and whether its coordinates are
// those of the upright image where both are possible.
func (t *Table) Size(row int) (height, width int, oriented bool) {
	if m := t.of(row); m != nil {
		return int(m.height), int(m.width), m.oriented
	}
	return 0, 0, false
}

// Count is the number of a row's objects.
func (t *Table) Count(row int) int {
	if i := t.image[row]; i >= 0 {
		return int(t.first[i+1] - t.first[i])
	}
	return 0
}

// Object is one of a row's objects. Its keypoints must not be changed.
func (t *Table) Object(row, k int) Object { return t.b.object(t.number(row, k)) }

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

// HasShapes reports whether there are any.
func (t *Table) HasShapes() bool { return len(t.b.shapes) > 0 }

// HasVisible reports whether any object says what is visible of it.
func (t *Table) HasVisible() bool { return len(t.b.visible) > 0 }

// MemoryBytes is what the table takes, without what is in a file.
func (t *Table) MemoryBytes() int64 {
	b := t.b
	n := b.memory.heap() + int64(4*(len(t.image)+len(t.first)+len(t.order)+len(b.ends))+12*len(b.keypoints)+16*len(b.shapes)+48*len(b.visible))
	for i := range b.images {
		m := &b.images[i]
		n += 160 + int64(len(m.path)+len(m.mask)+len(m.text)+len(m.bad))
	}
	return n
}

// Digest is a digest of everything in the table but the paths of images, for the fingerprint. It is computed once.
func (t *Table) Digest() string {
	t.once.Do(func() { t.digest = t.sum() })
	return t.digest
}

func (t *Table) sum() string {
	sum, buf, le := sha256.New(), []byte(nil), binary.LittleEndian
	put := func(values ...int) {
		for _, v := range values {
			buf = le.AppendUint64(buf, uint64(v))
		}
	}
	text := func(s []byte) {
		put(len(s))
		buf = append(buf, s...)
	}
	floats := func(values ...float32) {
		for _, v := range values {
			buf = le.AppendUint32(buf, math.Float32bits(v))
		}
	}
	for row := range t.image {
		sum.Write(buf)
		buf = buf[:0]
		m := t.of(row)
		if m == nil {
			put(-1)
			continue
		}
		put(int(m.height), int(m.width), t.Count(row))
		text([]byte(m.mask))
		text(m.text)
		text([]byte(m.bad))
		for k := range t.Count(row) {
			o := t.Object(row, k)
			put(int(o.ID), int(o.Label), int(o.Flags), len(o.Keypoints))
			floats(o.Box[:]...)
			for _, p := range o.Keypoints {
				floats(p.X, p.Y, p.V)
			}
			if o.Visible != nil {
				floats(o.Visible[:]...)
			}
		}
		t.eachShape(row, text)
	}
	sum.Write(buf)
	return hex.EncodeToString(sum.Sum(nil))
}

// encode writes a shape: its class, the number of its polygons, the length of each, and their numbers; or -1 and
// the runs.
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

// Scale has the coordinates of images that were annotated as 1x1, and are oriented, be parts of their
// upright height and width, which size returns by row; 0: not known. It must be called before the Table
// is used.
func (t *Table) Scale(size func(row int) (height, width int)) {
	for row := range t.image {
		m := t.of(row)
		if m == nil || !m.oriented || m.height != 1 || m.width != 1 {
			continue
		}
		h, w := size(row)
		if h == 0 || w == 0 {
			continue
		}
		m.height, m.width = int32(h), int32(w)
		for k := range t.Count(row) {
			t.scale(t.number(row, k), float32(h), float32(w))
		}
	}
}

// scale multiplies the coordinates of an object.
func (t *Table) scale(i int, h, w float32) {
	le, r := binary.LittleEndian, t.b.record(i)
	for k, by := range []float32{w, h, w, h} {
		le.PutUint32(r[4*k:], math.Float32bits(by*math.Float32frombits(le.Uint32(r[4*k:]))))
	}
	points := t.b.object(i).Keypoints
	for k := range points {
		points[k].X, points[k].Y = w*points[k].X, h*points[k].Y
	}
}
