package target

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// A Builder takes what annotations say, image by image or object by object, in any order, and makes
// the table of a dataset of it. An object takes 36 bytes, without keypoints. A Builder is not safe
// for concurrent use.
type Builder struct {
	byPath map[string]int
	images []image
	memory memory
	err    error // the first, of memory

	records   []place // of objects, by blocks
	objects   int
	visible   []visible // of objects, in their order
	keypoints []Keypoint
	ends      []uint32 // of each object's keypoints; nil: none has any
	most      int      // keypoints of an object
	shapes    []shape
	arrays    [][]string // paths by column and image; what is missing has none
}

type image struct {
	path          string
	height, width int32
	oriented      bool
	mask          string
	text          []byte
	bad           string
	sum           []byte // a digest of what is said, but for what is bad; nil: not known
}

// visible is what is not hidden of an object, which has a number.
type visible struct {
	object uint32
	box    Box
}

type shape struct {
	image int32
	size  int32
	at    place
}

// maxText bounds the text of an image, in bytes: each slot of a batch has room for the longest one.
const maxText = 64 << 10

// A record of an object: its box, its identity, its label, its flags, and its image.
const (
	recordBytes = 16 + 8 + 4 + 4
	blockOf     = 1024 // records
	flagsAt     = 24   // bits above the label
	maxLabel    = 1<<flagsAt - 1
)

// NewBuilder returns a Builder that knows no image. What is large it keeps in a file in dir, which
// has no name; "": in memory.
func NewBuilder(dir string) *Builder {
	return &Builder{byPath: map[string]int{}, memory: memory{dir: dir}}
}

// Close frees the Builder, and the Table that it made.
func (b *Builder) Close() error { return b.memory.close() }

// Image returns the number of the image with a path in the dataset; the first call for a path adds
// it. height and width are of the image that was annotated, 0 if that is not said. oriented: where
// stored and upright pixels are both possible, coordinates are of the upright ones.
func (b *Builder) Image(path string, height, width int, oriented bool) int {
	i, known := b.byPath[path]
	if !known {
		i = len(b.images)
		b.byPath[path] = i
		b.images = append(b.images, image{path: path, height: int32(height), width: int32(width), oriented: oriented})
	}
	return i
}

// Has reports whether an image was added.
func (b *Builder) Has(path string) bool { _, known := b.byPath[path]; return known }

// Object adds an object of an image, with a label of at most 24 bits. The Builder keeps none of its
// memory.
func (b *Builder) Object(image int, o Object) {
	if o.Label < 0 || o.Label > maxLabel {
		b.Bad(image, "an object has an impossible label")
		return
	}
	if b.objects%blockOf == 0 {
		_, at, err := b.memory.take(blockOf * recordBytes)
		if err != nil {
			b.fail(err)
			return
		}
		b.records = append(b.records, at)
	}
	le, r := binary.LittleEndian, b.record(b.objects)
	for k, v := range o.Box {
		le.PutUint32(r[4*k:], math.Float32bits(v))
	}
	le.PutUint64(r[16:], uint64(o.ID))
	le.PutUint32(r[24:], uint32(o.Label)|uint32(o.Flags)<<flagsAt)
	le.PutUint32(r[28:], uint32(image))
	if o.Visible != nil {
		b.visible = append(b.visible, visible{uint32(b.objects), *o.Visible})
	}
	if len(o.Keypoints) > 0 || b.ends != nil {
		for len(b.ends) < b.objects {
			b.ends = append(b.ends, uint32(len(b.keypoints)))
		}
		b.keypoints = append(b.keypoints, o.Keypoints...)
		b.ends = append(b.ends, uint32(len(b.keypoints)))
		b.most = max(b.most, len(o.Keypoints))
	}
	b.objects++
}

func (b *Builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *Builder) record(i int) []byte {
	at := b.records[i/blockOf]
	at.at += uint32(i % blockOf * recordBytes)
	return b.memory.at(at, recordBytes)
}

func (b *Builder) object(i int) (o Object) {
	le, r := binary.LittleEndian, b.record(i)
	for k := range o.Box {
		o.Box[k] = math.Float32frombits(le.Uint32(r[4*k:]))
	}
	o.ID = int64(le.Uint64(r[16:]))
	label := le.Uint32(r[24:])
	o.Label, o.Flags = int32(label&maxLabel), Flags(label>>flagsAt)
	at, found := slices.BinarySearchFunc(b.visible, uint32(i), func(v visible, i uint32) int {
		return cmp.Compare(v.object, i)
	})
	if found {
		v := b.visible[at].box
		o.Visible = &v
	}
	if i < len(b.ends) {
		from := uint32(0)
		if i > 0 {
			from = b.ends[i-1]
		}
		o.Keypoints = b.keypoints[from:b.ends[i]]
	}
	return o
}

// Mask says where the mask of an image is, in the dataset of masks.
func (b *Builder) Mask(image int, path string) {
	b.images[image].mask, b.images[image].sum = path, nil
}

// Array says where an array of an image is, in the dataset of a column.
func (b *Builder) Array(image, column int, path string) {
	for len(b.arrays) <= column {
		b.arrays = append(b.arrays, nil)
	}
	for len(b.arrays[column]) <= image {
		b.arrays[column] = append(b.arrays[column], "")
	}
	b.arrays[column][image] = path
}

func (b *Builder) array(image, column int) string {
	if column >= len(b.arrays) || image >= len(b.arrays[column]) {
		return ""
	}
	return b.arrays[column][image]
}

// Shape adds a part of the mask of an image, which has no file. The Builder keeps none of its
// memory.
func (b *Builder) Shape(image int, s Shape) {
	data := s.encode()
	to, at, err := b.memory.take(len(data))
	if err != nil {
		b.fail(err)
		return
	}
	copy(to, data)
	b.shapes = append(b.shapes, shape{int32(image), int32(len(data)), at})
}

// Text adds the fields of a JSON object to those of an image. A value under a key that is there
// already joins it in a list; lists are joined.
func (b *Builder) Text(image int, object []byte) {
	to := &b.images[image].text
	defer func() {
		if len(*to) > maxText {
			*to = nil
			b.Bad(image, fmt.Sprintf("its text has more than %d bytes", maxText))
		}
	}()
	if *to == nil {
		var line bytes.Buffer // without line ends
		if json.Compact(&line, object) != nil || line.Bytes()[0] != '{' {
			b.Bad(image, "its text is no JSON object")
			return
		}
		*to = line.Bytes()
		return
	}
	var had, has map[string]json.RawMessage
	if json.Unmarshal(*to, &had) != nil || json.Unmarshal(object, &has) != nil {
		b.Bad(image, "its text is no JSON object")
		return
	}
	for key, value := range has {
		before, known := had[key]
		if !known {
			had[key] = value
			continue
		}
		had[key], _ = json.Marshal(append(listOf(before), listOf(value)...)) // what was read can be written
	}
	*to, _ = json.Marshal(had)
}

// listOf is a JSON value as a list, of one if it is none.
func listOf(value json.RawMessage) (list []json.RawMessage) {
	if json.Unmarshal(value, &list) != nil || list == nil {
		list = []json.RawMessage{value}
	}
	return list
}

// Bad says what is wrong with the annotations of an image: file, entry and rule. The first reason
// counts.
func (b *Builder) Bad(image int, reason string) {
	if b.images[image].bad == "" {
		b.images[image].bad = reason
	}
}

// Twins calls f for the objects whose ids others have, too.
func (b *Builder) Twins(f func(image int, id int64)) {
	ids := make([]int64, b.objects)
	for i := range ids {
		ids[i] = b.id(i)
	}
	slices.Sort(ids)
	twins := map[int64]bool{}
	for i := 1; i < len(ids); i++ {
		if ids[i] == ids[i-1] {
			twins[ids[i]] = true
		}
	}
	for i := 0; i < b.objects && len(twins) > 0; i++ {
		if id := b.id(i); twins[id] {
			f(b.imageOf(i), id)
		}
	}
}

func (b *Builder) id(object int) int64 {
	return int64(binary.LittleEndian.Uint64(b.record(object)[16:]))
}

// Table makes the table of a dataset of n rows, of which row i has the image with the name that
// name(i) returns. The Builder must not be changed any more. strays are images that no row has.
func (b *Builder) Table(n int, name func(i int) string) (t *Table, strays int, err error) {
	if b.err != nil {
		return nil, 0, b.err
	}
	t = &Table{b: b, image: make([]int32, n), Keypoints: b.most}
	used := make([]bool, len(b.images))
	for i := range n {
		t.image[i] = -1
		if at, known := b.byPath[name(i)]; known {
			t.image[i], used[at] = int32(at), true
		}
	}
	for _, u := range used {
		if !u {
			strays++
		}
	}
	t.first, t.order = b.byImage()
	b.sortShapes()
	return t, strays, nil
}

// byImage puts the objects in the order of their images, and those of one image in the order in
// which they came. Those of image i are from first[i] to first[i+1] in order, which is nil if they
// came like that.
func (b *Builder) byImage() (first, order []uint32) {
	first = make([]uint32, len(b.images)+1)
	sorted, last := true, 0
	for i := range b.objects {
		of := b.imageOf(i)
		first[of+1]++
		sorted, last = sorted && of >= last, of
	}
	for i := range b.images {
		first[i+1] += first[i]
	}
	if sorted {
		return first, nil
	}
	next := slices.Clone(first)
	order = make([]uint32, b.objects)
	for i := range b.objects {
		of := b.imageOf(i)
		order[next[of]] = uint32(i)
		next[of]++
	}
	return first, order
}

func (b *Builder) imageOf(object int) int {
	return int(binary.LittleEndian.Uint32(b.record(object)[28:]))
}

func (b *Builder) sortShapes() {
	slices.SortStableFunc(b.shapes, func(a, b shape) int { return cmp.Compare(a.image, b.image) })
}
