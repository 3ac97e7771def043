package target

import (
	"cmp"
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
// entries.

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
	first, err := json.Marshal(keptAbout{about, b.Len(), len(b.arrays)})
	if err = cmp.Or(b.err, err); err != nil {
		return err
	}
	return owned.Replace(path, func(f *os.File) error {
		w := facts.NewWriter(f)
		w.Put(aboutRecord, first)
		var e facts.Encoder
		for i := range b.Len() {
			b.encodeImage(&e, i)
			if len(e.Bytes) > math.MaxInt32 {
				return errors.New("there is too much of one image")
			}
			if len(e.Bytes) > blockBytes || i == b.Len()-1 {
				w.Put(imagesRecord, e.Bytes)
				e.Bytes = e.Bytes[:0]
			}
		}
		return w.Flush()
	})
}

// encodeImage appends image i.
func (b *Builder) encodeImage(e *facts.Encoder, i int) {
	m := &b.images[i]
	e.Int(int64(m.height))
	e.Int(int64(m.width))
	e.Byte(bit(m.oriented))
	for _, text := range []string{m.path, m.mask, string(b.text(i)), m.bad} {
		e.Text(text)
	}
	for column := range b.arrays {
		e.Text(b.array(i, column))
	}
	entries := b.entries(i)
	e.Int(int64(len(entries)))
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
	b = NewBuilder(filepath.Dir(path))
	if chunk, err := b.memory.inFile(int(min(size, math.MaxInt32))); err == nil {
		b.memory.chunks = [][]byte{chunk}
	} else { // the directory may be another's, or the disk full
		b.memory.dir = ""
	}
	if about, err = b.read(f, size); err != nil {
		_ = b.Close()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, about, nil
}

// read reads a file, and checks everything that the rest of the package relies on.
func (b *Builder) read(f io.Reader, size int64) (json.RawMessage, error) {
	var about *keptAbout
	err := facts.Read(f, size, func(kind byte, payload []byte, _ int64) error {
		d, good := facts.Decoder{Bytes: payload}, about != nil
		switch {
		case kind == aboutRecord && about == nil:
			good = json.Unmarshal(payload, &about) == nil && about != nil
		case kind == imagesRecord && good:
			for good && len(d.Bytes) > 0 {
				good = b.readImage(&d, about.Arrays)
			}
		default:
			good = false
		}
		if !good {
			return ErrKept
		}
		return b.err
	})
	if b.err != nil {
		return nil, b.err
	}
	if err != nil || about == nil || b.Len() != about.Images {
		return nil, ErrKept
	}
	return about.About, nil
}

// readImage reads the next image.
func (b *Builder) readImage(d *facts.Decoder, arrays int) bool {
	height, width, oriented := d.Within(math.MaxInt32), d.Within(math.MaxInt32), d.Byte() == 1
	path, mask, text, bad := string(d.Text()), string(d.Text()), d.Text(), string(d.Text())
	if b.Has(path) || d.Bad || len(text) > maxText {
		return false
	}
	i := b.Image(path, int(height), int(width), oriented)
	b.images[i].mask, b.images[i].bad = mask, bad
	if len(text) > 0 {
		b.setText(i, text)
	}
	for column := 0; column < arrays && !d.Bad; column++ {
		if path := d.Text(); len(path) > 0 {
			b.Array(i, column, string(path))
		}
	}
	for range d.Within(int64(len(d.Bytes))) {
		if e := nextEntry(d); d.Bad || !b.addEntry(i, e) {
			return false
		}
	}
	return !d.Bad
}
