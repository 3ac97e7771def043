package sample

import (
	"fmt"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/pixels"
	"github.com/batchfs/batchfs/decode/resample"
)

// A Loader reads samples from storage and judges them. Of an image stored as plain pixels it
// reads only the rows that its crop needs, if that saves enough. It belongs to one goroutine.
type Loader struct {
	ds        *dataset.Dataset
	transform resample.Options
	decoding  decode.Options
	rows      dataset.Part // for the sample below; bound once, to avoid an allocation per sample
	epoch     int
	id        int64
}

// NewLoader returns a Loader for samples with this transform and decoding. MaxPixels must
// be set.
func NewLoader(ds *dataset.Dataset, transform resample.Options, decoding decode.Options) *Loader {
	l := &Loader{ds: ds, transform: transform, decoding: decoding}
	l.rows = l.rowsOf
	return l
}

// Load reads a sample into the result of grow(n), like [dataset.Dataset.LoadPart]. Unless
// whole is true, it may read only the part that is decoded in this epoch. read is the
// number of bytes read from storage.
func (l *Loader) Load(epoch int, id int64, whole bool, grow func(n int) []byte, stop <-chan struct{}) (data []byte, read int64, seen dataset.Identity, err error) {
	var part dataset.Part
	if !whole && IsRaw(l.ds, int(id)) && l.saves(epoch, id) {
		l.epoch, l.id, part = epoch, id, l.rows
	}
	return l.ds.LoadPart(int(id), nil, grow, part, stop)
}

// saves reports, as far as the index tells, whether reading only some rows is worth the
// additional read it takes.
func (l *Loader) saves(epoch int, id int64) bool {
	height, width := l.ds.Size(int(id), l.decoding.IgnoreOrientation)
	if height == 0 {
		return true // decided from the file's header
	}
	size := int64(height) * int64(width) * 3
	if seen := l.ds.Stat(int(id)); seen.Known() {
		size = seen.Size
	}
	_, _, rows, _ := l.transform.Choose(epoch, id, height, width).Source()
	return size/int64(height)*int64(height-rows) >= dataset.LeastSaved
}

// rowsOf returns the byte range of the rows that the sample's transform needs.
func (l *Loader) rowsOf(head []byte, size int64) (from, to int64, ok bool) {
	h, err := decode.ReadHeader(head, false)
	if err != nil {
		return 0, 0, false // reading the whole file will find the fault
	}
	height, width := h.Size(l.decoding.IgnoreOrientation)
	t := l.transform.Choose(l.epoch, l.id, height, width)
	return decode.PartOf(head, size, pixels.Options{Options: l.decoding}.Plan(h, t, pixels.Target{}).Region)
}

// Judge reads an image's header and returns it with the upright size. It fails if the image
// must not be decoded: it is too large, or not the indexed one.
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
