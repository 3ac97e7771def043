package target

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/batchfs/batchfs/internal/facts"
	"github.com/batchfs/batchfs/internal/owned"
)

// The content of a Builder can be kept in a file of package facts, so that annotations need not be
// read again: first the caller's own record, then the images, one after another, each with its
// digest and its entries. A Builder that is loaded has the file's bytes in an unnamed file of its
// own: touching a mapping of the file itself would end the process once somebody has truncated it,
// or, over a network, replaced it.

// Kinds of records.
const (
	aboutRecord  = 'A'
	imagesRecord = 'I'
)

const blockBytes = 256 << 10 // a record of images ends when it exceeds this

// ErrKept means that a file is not a kept Builder, or is unusable.
var ErrKept = errors.New("is damaged, cut off, or of an earlier version")

// keptAbout is the first record.
type keptAbout struct {
	About  json.RawMessage
	Images int
	Arrays int // number of columns
}

// Save stores the Builder's content and the caller's record, replacing any file at a path.
func (b *Builder) Save(path string, about json.RawMessage) error {
	first, err := json.Marshal(keptAbout{about, len(b.images), len(b.arrays)})
	if err = cmp.Or(b.err, err); err != nil {
		return err
	}
	return owned.Replace(path, func(f *os.File) error {
		w := facts.NewWriter(f)
		w.Put(aboutRecord, first)
		var e facts.Encoder
		for i := range b.images {
			b.encodeImage(&e, i)
			if len(e.Bytes) > math.MaxInt32 {
				return errors.New("there is too much of one image")
			}
			if len(e.Bytes) > blockBytes || i == len(b.images)-1 {
				w.Put(imagesRecord, e.Bytes)
				e.Bytes = e.Bytes[:0]
			}
		}
		return w.Flush()
	})
}

// encodeImage appends image i, with its digest.
func (b *Builder) encodeImage(e *facts.Encoder, i int) {
	m := &b.images[i]
	e.Int(int64(m.height))
	e.Int(int64(m.width))
	e.Byte(bit(m.oriented))
	for _, text := range []string{m.path, m.mask, string(m.text), m.bad} {
		e.Text(text)
	}
	for column := range b.arrays {
		e.Text(b.array(i, column))
	}
	entries := b.entries(i)
	e.Int(int64(len(entries)))
	e.Bytes = append(e.Bytes, b.sumOf(i, entries)...)
	for _, one := range entries {
		one.encode(e)
	}
}

// Load returns a stored Builder and the caller's record. The error of a damaged file wraps ErrKept.
func Load(path string) (b *Builder, about json.RawMessage, err error) {
	f, size, err := owned.Open(path, os.O_RDONLY)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if size == 0 || size > math.MaxInt {
		return nil, nil, fmt.Errorf("%s: %w", path, ErrKept)
	}
	b = NewBuilder(filepath.Dir(path))
	whole, err := b.memory.inFile(int(size))
	if err != nil { // the directory may be another's, or the disk full
		whole = make([]byte, size)
	}
	b.memory.chunks, b.memory.used, b.memory.dir = [][]byte{whole}, len(whole), ""
	whole = whole[:size]
	if _, err = io.ReadFull(f, whole); err == nil {
		about, err = b.open(whole)
	}
	if err != nil {
		_ = b.Close()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, about, nil
}

// open reads a file, and checks everything that the rest of the package relies on.
func (b *Builder) open(whole []byte) (json.RawMessage, error) {
	b.whole = whole
	var about *keptAbout
	err := facts.Read(bytes.NewReader(whole), int64(len(whole)), func(kind byte, payload []byte, at int64) error {
		d, good := facts.Decoder{Bytes: whole[at:][:len(payload)]}, about != nil
		switch {
		case kind == aboutRecord && about == nil:
			good = json.Unmarshal(payload, &about) == nil && about != nil && about.Images >= 0
			if good {
				most := min(about.Images, len(whole)/sha256.Size)
				b.images, b.entryLists, b.byPath = make([]image, 0, most), make([]entryList, 0, most), make(map[string]int, most)
			}
		case kind == imagesRecord && good:
			for good && len(d.Bytes) > 0 {
				good = b.openImage(&d, about.Arrays)
			}
		default:
			good = false
		}
		if !good {
			return ErrKept
		}
		return nil
	})
	if err != nil || about == nil || len(b.images) != about.Images {
		return nil, ErrKept
	}
	return about.About, nil
}

// openImage reads the next image.
func (b *Builder) openImage(d *facts.Decoder, arrays int) bool {
	i, s, m := len(b.images), entryList{}, image{height: int32(d.Within(math.MaxInt32)), width: int32(d.Within(math.MaxInt32))}
	m.oriented, m.path, m.mask = d.Byte() == 1, string(d.Text()), string(d.Text())
	if m.text = d.Text(); len(m.text) == 0 {
		m.text = nil
	}
	m.bad = string(d.Text())
	for column := 0; column < arrays && !d.Bad; column++ {
		if path := d.Text(); len(path) > 0 {
			b.Array(i, column, string(path))
		}
	}
	n := d.Within(int64(len(d.Bytes)))
	m.kept = d.Bytes
	for range sha256.Size {
		d.Byte()
	}
	for range n {
		if e := nextEntry(d); d.Bad || !b.count(&s, e) {
			return false
		}
	}
	m.kept = m.kept[:len(m.kept)-len(d.Bytes)]
	if _, twice := b.byPath[m.path]; twice || d.Bad || len(m.text) > maxText {
		return false
	}
	b.byPath[m.path] = i
	b.images, b.entryLists = append(b.images, m), append(b.entryLists, s)
	return true
}
