package target

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// A Builder takes what annotations say, image by image or object by object, in any order, and makes
// the table of a dataset of it. An object takes 36 bytes, without keypoints. A Builder is not safe for
// concurrent use.
type Builder struct {
	byPath map[string]int
	images []image
	memory memory
	err    error // the first, of memory

	records   []place // of objects, by blocks
	objects   int
	visible   map[int]Box // by object
	keypoints []Keypoint
	ends      []uint32 // of each object's keypoints; nil: none has any
	most      int      // keypoints of an object
	shapes    []shape
}

type image struct {
	path          string
	height, width int32
	oriented      bool
	mask          string
	text          []byte
	bad           string
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

// NewBuilder returns a Builder that knows no image. What is large it keeps in a file in dir, which has no
// name; "": in memory.
func NewBuilder(dir string) *Builder {
	return &Builder{byPath: map[string]int{}, memory: memory{dir: dir}, visible: map[int]Box{}}
}

// Close frees the Builder, and the Table that it made.
func (b *Builder) Close() error { return b.memory.close() }

// Image returns the number of the image with a path in the dataset; the first call for a path adds it.
// height and width are of the image that was annotated, 0 if that is not said. oriented: where stored
// and upright pixels are both possible, coordinates are of the upright ones.
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

// Object adds an object of an image, with a label of at most 24 bits. The Builder keeps none of its memory.
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
		b.visible[b.objects] = *o.Visible
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
	if v, ok := b.visible[i]; ok {
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
func (b *Builder) Mask(image int, path string) { b.images[image].mask = path }

// Shape adds a part of the mask of an image, which has no file. The Builder keeps none of its memory.
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

// Text adds the fields of a JSON object to those of an image. A value under a key that is there already
// joins it in a list; lists are joined.
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

// Bad says what is wrong with the annotations of an image: file, entry and rule. The first reason counts.
func (b *Builder) Bad(image int, reason string) {
	if b.images[image].bad == "" {
		b.images[image].bad = reason
	}
}

// Table makes the table of a dataset of n rows, of which row i has the image with the name that name(i)
// returns. The Builder must not be changed any more. strays are images that no row has.
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
	// Objects by image, in the order in which they came.
	t.first = make([]uint32, len(b.images)+1)
	of := func(i int) uint32 { return binary.LittleEndian.Uint32(b.record(i)[28:]) }
	sorted, last := true, uint32(0)
	for i := range b.objects {
		t.first[of(i)+1]++
		sorted, last = sorted && of(i) >= last, of(i)
	}
	for i := range b.images {
		t.first[i+1] += t.first[i]
	}
	if !sorted {
		next := slices.Clone(t.first)
		t.order = make([]uint32, b.objects)
		for i := range b.objects {
			t.order[next[of(i)]] = uint32(i)
			next[of(i)]++
		}
	}
	slices.SortStableFunc(b.shapes, func(a, b shape) int { return int(a.image - b.image) })
	return t, strays, nil
}
