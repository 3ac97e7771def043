package target

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/batchfs/batchfs/internal/facts"
)

// A Builder takes annotations, image by image or object by object, in any order, and makes the
// table of a dataset from them. An object takes 38 bytes, without keypoints. A Builder is not safe
// for concurrent use.
type Builder struct {
	byPath     map[string]int
	images     []image
	entryLists []entryList // by image
	arrays     [][]string  // paths by column and image; "": none
	memory     memory      // of entries, each preceded by the place of the image's previous entry
	whole      []byte      // the file that was loaded, in memory; nil: none
	err        error       // the first, of memory
	most       int         // most keypoints of an object
	visible    bool        // some object has a visible part

	data []byte        // buffer for an object,
	room facts.Encoder // and for an entry
}

type image struct {
	path          string
	mask          string
	bad           string
	text          []byte
	kept          []byte // the loaded digest, see sumOf, and entries
	height, width int32
	oriented      bool
	changed       bool // since it was loaded, except for entries
}

// entryList is the part of an image's data that changes with each entry. It is small, because
// images come in any order.
type entryList struct {
	last    place // of the last entry, unless it was loaded
	objects int32 // number of objects
}

// maxText limits the text of an image, in bytes: each slot of a batch has room for the longest
// text.
const maxText = 64 << 10

// NewBuilder returns a Builder without images. It keeps large data in an unnamed file in dir; "":
// in memory.
func NewBuilder(dir string) *Builder {
	return &Builder{byPath: map[string]int{}, memory: memory{dir: dir}}
}

// Close frees the Builder and its Table.
func (b *Builder) Close() error { return b.memory.close() }

// Image returns the number of the image with a path in the dataset, which the Builder copies; the
// first call for a path adds the image. height and width are those of the annotated image, 0 if
// unknown; the first known ones count. oriented says that coordinates refer to upright pixels, if
// both stored and upright ones are possible.
func (b *Builder) Image(path string, height, width int, oriented bool) int {
	i, known := b.byPath[path]
	if !known {
		i, path = len(b.images), strings.Clone(path)
		b.byPath[path] = i
		b.images = append(b.images, image{path: path})
		b.entryLists = append(b.entryLists, entryList{})
	}
	if m := &b.images[i]; height > 0 && width > 0 && m.height == 0 {
		m.height, m.width, m.oriented, m.changed = int32(height), int32(width), oriented, true
	}
	return i
}

// Has reports whether an image was added.
func (b *Builder) Has(path string) bool { _, known := b.byPath[path]; return known }

// Len is the number of images, and Path the path of image i.
func (b *Builder) Len() int { return len(b.images) }

func (b *Builder) Path(i int) string { return b.images[i].path }

// Says reports whether anything is annotated of image i, if only something bad.
func (b *Builder) Says(i int) bool {
	m := &b.images[i]
	says := m.bad != "" || m.mask != "" || m.text != nil || b.entryLists[i].last != nowhere || len(m.kept) > sha256.Size
	for column := range b.arrays {
		says = says || b.array(i, column) != ""
	}
	return says
}

// Objects counts the objects of all images.
func (b *Builder) Objects() (n int) {
	for _, s := range b.entryLists {
		n += int(s.objects)
	}
	return n
}

// Relabel changes the labels of all objects; k counts those of an image. None may have been loaded.
func (b *Builder) Relabel(to func(image, k int, label int32) int32) {
	for i := range b.images {
		k := 0
		for _, e := range b.entries(i) {
			if !e.isShape {
				word := e.data[objectBytes-4:]
				flags := le.Uint32(word) &^ maxLabel
				le.PutUint32(word, flags|uint32(to(i, k, int32(le.Uint32(word)&maxLabel))))
				k++
			}
		}
	}
}

// Object adds an object to an image, with a label of at most 24 bits. The Builder copies it.
func (b *Builder) Object(image int, o Object) {
	if o.Label < 0 || o.Label > maxLabel {
		b.Bad(image, "an object has an impossible label")
		return
	}
	b.data = o.append(b.data[:0])
	b.addEntry(image, entry{false, b.data})
}

// Shape adds a part of the mask of an image without a mask file. The Builder copies it.
func (b *Builder) Shape(image int, s Shape) { b.addEntry(image, entry{true, s.encode()}) }

// addEntry adds an entry to an image.
func (b *Builder) addEntry(i int, e entry) {
	s := &b.entryLists[i]
	b.room.Bytes = le.AppendUint64(b.room.Bytes[:0], uint64(s.last))
	e.encode(&b.room)
	to, at, err := b.memory.take(len(b.room.Bytes))
	if err != nil {
		b.err = cmp.Or(b.err, err)
		return
	}
	copy(to, b.room.Bytes)
	s.last = at
	b.count(s, e)
}

// count counts an entry of an image; false: the entry is invalid.
func (b *Builder) count(s *entryList, e entry) bool {
	if e.isShape {
		return isShape(e.data)
	}
	n, visible, ok := e.points()
	b.most, b.visible = max(b.most, n), b.visible || visible
	s.objects++
	return ok
}

// entries returns the entries of image i, in the order in which they came.
func (b *Builder) entries(i int) (all []entry) {
	kept, s := b.images[i].kept, b.entryLists[i]
	all = make([]entry, 0, s.objects)
	for d := (facts.Decoder{Bytes: kept[min(sha256.Size, len(kept)):]}); len(d.Bytes) > 0; {
		all = append(all, nextEntry(&d))
	}
	n := len(all)
	for at := s.last; at != nowhere; {
		piece := b.memory.at(at)
		all = append(all, nextEntry(&facts.Decoder{Bytes: piece[placeBytes:]}))
		at = place(le.Uint64(piece))
	}
	slices.Reverse(all[n:])
	return all
}

// Mask sets the path of an image's mask, in the dataset of masks.
func (b *Builder) Mask(image int, path string) {
	b.images[image].mask, b.images[image].changed = path, true
}

// Array sets the path of an image's array, in the dataset of a column.
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

// Text adds the fields of a JSON object to those of an image. If a key exists already, both values
// go into a list; lists are joined. A byte that is not UTF-8 becomes U+FFFD, as JSON must be UTF-8.
func (b *Builder) Text(image int, object []byte) {
	if !utf8.Valid(object) {
		object = []byte(string([]rune(string(object))))
	}
	to := &b.images[image].text
	b.images[image].changed = true
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
		had[key], _ = json.Marshal(append(listOf(before), listOf(value)...)) // values that were read can be written
	}
	*to, _ = json.Marshal(had)
}

// listOf returns a JSON list, or a list with the value.
func listOf(value json.RawMessage) (list []json.RawMessage) {
	if json.Unmarshal(value, &list) != nil || list == nil {
		list = []json.RawMessage{value}
	}
	return list
}

// Bad records what is wrong with the annotations of an image: file, entry and rule. The first
// reason counts.
func (b *Builder) Bad(image int, reason string) {
	if b.images[image].bad == "" {
		b.images[image].bad = reason
	}
}

// Table makes the table of a dataset of n rows; row i has the image name(i). The Builder must not
// be changed afterwards.
func (b *Builder) Table(n int, name func(i int) string) (*Table, error) {
	if b.err != nil {
		return nil, b.err
	}
	t := &Table{b: b, image: make([]int32, n), Keypoints: b.most}
	for i := range n {
		t.image[i] = -1
		if at, known := b.byPath[name(i)]; known {
			t.image[i] = int32(at)
		}
	}
	return t, nil
}
