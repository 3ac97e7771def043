package target

import (
	"bytes"
	"cmp"
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
	text          place
	height, width int32
	oriented      bool
}

// entryList is the part of an image's data that changes with each entry. It is small, because
// images come in any order.
type entryList struct {
	last    place // of the last entry
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
		m.height, m.width, m.oriented = int32(height), int32(width), oriented
	}
	return i
}

// Has reports whether an image was added.
func (b *Builder) Has(path string) bool { _, known := b.byPath[path]; return known }

// Len is the number of images, and Path the path of image i.
func (b *Builder) Len() int { return len(b.byPath) }

func (b *Builder) Path(i int) string { return b.images[i].path }

// Says reports whether anything is annotated of image i, if only something bad.
func (b *Builder) Says(i int) bool {
	m := &b.images[i]
	says := m.bad != "" || m.mask != "" || m.text != nowhere || b.entryLists[i].last != nowhere
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

// Relabel changes the labels of all objects; k counts those of an image.
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

// addEntry adds an entry to an image; false: the entry is invalid.
func (b *Builder) addEntry(i int, e entry) bool {
	s := &b.entryLists[i]
	b.room.Bytes = le.AppendUint64(b.room.Bytes[:0], uint64(s.last))
	e.encode(&b.room)
	s.last = b.put(b.room.Bytes)
	if e.isShape {
		return isShape(e.data)
	}
	n, visible, ok := e.points()
	b.most, b.visible = max(b.most, n), b.visible || visible
	s.objects++
	return ok
}

// put copies a piece to the Builder's memory.
func (b *Builder) put(piece []byte) place {
	to, at, err := b.memory.take(len(piece))
	b.err = cmp.Or(b.err, err)
	copy(to, piece)
	return at
}

// entries returns the entries of image i, in the order in which they came.
func (b *Builder) entries(i int) (all []entry) {
	s := b.entryLists[i]
	all = make([]entry, 0, s.objects)
	for at := s.last; at != nowhere; {
		piece := b.memory.at(at)
		all = append(all, nextEntry(&facts.Decoder{Bytes: piece[placeBytes:]}))
		at = place(le.Uint64(piece))
	}
	slices.Reverse(all)
	return all
}

// Mask sets the path of an image's mask, in the dataset of masks.
func (b *Builder) Mask(image int, path string) { b.images[image].mask = path }

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
	if had := b.text(image); had != nil {
		object = joined(had, object)
	}
	var line bytes.Buffer // without line ends
	switch {
	case json.Compact(&line, object) != nil || line.Bytes()[0] != '{':
		b.Bad(image, "its text is no JSON object")
	case line.Len() > maxText:
		b.images[image].text = nowhere
		b.Bad(image, fmt.Sprintf("its text has more than %d bytes", maxText))
	default:
		b.setText(image, line.Bytes())
	}
}

func (b *Builder) setText(image int, line []byte) {
	b.images[image].text = b.put(append(le.AppendUint32(nil, uint32(len(line))), line...))
}

// text is the text of an image; nil: none.
func (b *Builder) text(image int) []byte {
	at := b.images[image].text
	if at == nowhere {
		return nil
	}
	piece := b.memory.at(at)
	n := le.Uint32(piece)
	return piece[4:][:n:n]
}

// joined joins the fields of two JSON objects; nil: one of them is none.
func joined(one, other []byte) (all []byte) {
	var had, has map[string]json.RawMessage
	if json.Unmarshal(one, &had) != nil || json.Unmarshal(other, &has) != nil {
		return nil
	}
	for key, value := range has {
		if before, known := had[key]; known {
			value, _ = json.Marshal(append(listOf(before), listOf(value)...)) // what was read can be written
		}
		had[key] = value
	}
	all, _ = json.Marshal(had)
	return all
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
	t := &Table{b: b, image: make([]int32, n), none: int32(len(b.images)), Keypoints: b.most}
	b.images, b.entryLists = append(b.images, image{}), append(b.entryLists, entryList{})
	for i := range n {
		t.image[i] = t.none
		if at, known := b.byPath[name(i)]; known {
			t.image[i] = int32(at)
		}
	}
	return t, nil
}
