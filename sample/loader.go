package sample

import (
	"errors"
	"fmt"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/resample"
)

// A Loader reads samples from storage, and judges them. Of an image that is stored as plain
// pixels, a crop needs only some rows, and where that is worth it only those are read. It belongs to one
// goroutine.
type Loader struct {
	ds        *dataset.Dataset
	transform resample.Options
	decoding  decode.Options
	rows      dataset.Part // of the sample below
	epoch     int
	id        int64
}

// NewLoader returns a Loader for samples that are transformed and decoded like this.
// MaxPixels must be given.
func NewLoader(ds *dataset.Dataset, transform resample.Options, decoding decode.Options) *Loader {
	l := &Loader{ds: ds, transform: transform, decoding: decoding}
	l.rows = l.rowsOf // made once: nothing is allocated for a sample
	return l
}

// Load reads a sample into what grow(n) returns, as [dataset.Dataset.LoadPart] does, for an
// epoch in which it is decoded, or else whole. read is how many bytes came from storage.
func (l *Loader) Load(epoch int, id int64, whole bool, grow func(n int) []byte, stop <-chan struct{}) (data []byte, read int64, seen dataset.Identity, err error) {
	var part dataset.Part
	if !whole && IsRaw(l.ds, int(id)) && l.saves(epoch, id) {
		l.epoch, l.id, part = epoch, id, l.rows
	}
	return l.ds.LoadPart(int(id), nil, grow, part, stop)
}

// saves says, as far as the index knows, whether reading only some rows is worth the second
// read that it takes.
func (l *Loader) saves(epoch int, id int64) bool {
	height, width := l.ds.Size(int(id), l.decoding.IgnoreOrientation)
	if height == 0 {
		return true // the file's head will tell
	}
	size := int64(height) * int64(width) * 3
	if seen := l.ds.Stat(int(id)); seen.Known() {
		size = seen.Size
	}
	_, _, rows, _ := l.transform.Choose(epoch, id, height, width).Source()
	return size/int64(height)*int64(height-rows) >= dataset.LeastSaved
}

// rowsOf is where the rows are that the sample's transform looks at.
func (l *Loader) rowsOf(head []byte, size int64) (from, to int64, ok bool) {
	h, err := decode.ReadHeader(head, false)
	if err != nil {
		return 0, 0, false // reading all of it will tell what is wrong
	}
	height, width := h.Size(l.decoding.IgnoreOrientation)
	y, x, rows, columns := l.transform.Choose(l.epoch, l.id, height, width).Source()
	return decode.PartOf(head, size, l.decoding.StoredRegion(h, decode.Region{X: x, Y: y, W: columns, H: rows}, 1))
}

// IsRaw says that a sample is stored as plain pixels.
func IsRaw(ds *dataset.Dataset, i int) bool {
	format, known := decode.ParseFormat(ds.Format(i))
	return known && format.Raw()
}

// ErrUnfit means that a sample is fine by itself, but not what the index, from which the
// shape of its batch follows, said it is.
var ErrUnfit = errors.New("not the image that was indexed")

// Judge says what image a file holds, and its upright size, and whether it is one that may
// be decoded: not larger than is allowed, and the one that was indexed.
func (l *Loader) Judge(id int64, data []byte) (head decode.Header, height, width int, err error) {
	if head, err = decode.ReadHeader(data, true); err != nil {
		return head, 0, 0, err
	}
	height, width = head.Size(l.decoding.IgnoreOrientation)
	if n := int64(height) * int64(width); n > l.decoding.MaxPixels {
		return head, 0, 0, fmt.Errorf("%w: %d pixels, more than the %d allowed (--max-pixels)", decode.ErrTooLarge, n, l.decoding.MaxPixels)
	}
	if h, w := l.ds.Size(int(id), l.decoding.IgnoreOrientation); h > 0 && (h != height || w != width) {
		return head, 0, 0, fmt.Errorf("%w: %dx%d, but the index says %dx%d", ErrUnfit, height, width, h, w)
	}
	return head, height, width, nil
}
