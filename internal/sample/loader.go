package sample

import (
	"context"
	"fmt"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/shard"
)

// A Loader reads samples from storage and judges them. For an image stored as plain pixels, or
// packed, it reads only the rows that its crop needs; for a JPEG, if that saves enough, only what
// is decoded from entry points. It belongs to one goroutine.
type Loader struct {
	ds        *dataset.Dataset
	transform resample.Options
	options   pixels.Options
	entries   *Entries
	part      dataset.Part // for the sample below; bound once, to avoid an allocation per sample
	epoch     int
	id        int64
}

// NewLoader returns a Loader for samples with this transform and decoding. MaxPixels must be set.
// With entries, which may be nil, Load may read JPEGs in part.
func NewLoader(ds *dataset.Dataset, transform resample.Options, o pixels.Options, entries *Entries) *Loader {
	l := &Loader{ds: ds, transform: transform, options: o, entries: entries}
	l.part = l.partOf
	return l
}

// Load reads a sample into the result of grow(n), like [dataset.Dataset.LoadPart]. Unless
// whole is true, it may read only the part that is decoded in this epoch. read is the
// number of bytes read from storage.
func (l *Loader) Load(ctx context.Context, epoch int, id int64, whole bool, grow func(n int) []byte) (data []byte, read int64, seen dataset.Identity, err error) {
	l.epoch, l.id = epoch, id
	var part dataset.Part
	indexed := l.ds.Stat(int(id))
	first := int64(0)
	switch {
	case whole:
	case l.saves(epoch, id, indexed):
		part, first = l.part, l.front(id)
	default:
		if first = l.reach(epoch, id, indexed); first > 0 {
			part = l.part
		}
	}
	data, read, seen, err = l.ds.LoadPart(ctx, int(id), epoch, nil, grow, part, first)
	if err == nil && seen != indexed && l.entries.Partial() { // the entry points are of an earlier file
		l.entries.whole()
		var again int64
		data, again, seen, err = l.ds.LoadPart(ctx, int(id), epoch, nil, grow, nil, 0)
		read += again
	}
	return data, read, seen, err
}

// saves reports, by the index, whether reading only a part is worth the additional read.
func (l *Loader) saves(epoch int, id int64, indexed dataset.Identity) bool {
	rows := CostOf(l.ds, int(id)) != shard.Encoded // can be read alone
	if !rows && !l.entries.allows(id) {
		return false
	}
	height, width := l.ds.Size(int(id), l.options.IgnoreOrientation)
	if height == 0 {
		return rows // decided from the file's header
	}
	size := int64(height) * int64(width) * 3
	if indexed.Known() {
		size = indexed.Size
	}
	t := l.transform.Choose(epoch, id, height, width)
	_, _, shown, _ := t.Source()
	if size/int64(height)*int64(height-shown) < l.ds.LeastSaved() {
		return false
	}
	return rows || l.entries.has(id, indexed)
}

// front is how many bytes of a packed image are read to learn where its rows are, and 0 for others.
func (l *Loader) front(id int64) int64 {
	if CostOf(l.ds, int(id)) != shard.Packed {
		return 0
	}
	return decode.PackedFront(l.ds.Size(int(id), true))
}

// leastOfDisk is how many bytes must be skipped for two reads of a local disk to beat one.
const leastOfDisk = 64 << 10

// PackedPart says how to read the packed form of a sample that is not stored packed: its first
// bytes, and then the part that these show to be needed; 0: all at once, since a part would skip
// too little.
func (l *Loader) PackedPart(epoch int, id int64) (first int64, part dataset.Part) {
	l.epoch, l.id = epoch, id
	height, width := l.ds.Size(int(id), l.options.IgnoreOrientation)
	indexed := l.ds.Stat(int(id))
	if height == 0 || !indexed.Known() {
		return 0, nil
	}
	t := l.transform.Choose(epoch, id, height, width)
	if _, _, shown, _ := t.Source(); indexed.Size/int64(height)*int64(height-shown) < leastOfDisk {
		return 0, nil
	}
	return decode.PackedFront(l.ds.Size(int(id), true)), l.part
}

// reach is how far into its file a JPEG or a packed image should be read if one read probably
// suffices: to the end of the last row of its crop, by its entry points, or with a margin by its
// share of the rows. 0: that skips too little, or is unknown.
func (l *Loader) reach(epoch int, id int64, indexed dataset.Identity) int64 {
	height, width := l.ds.Size(int(id), l.options.IgnoreOrientation)
	stored := l.options.IgnoreOrientation || l.ds.Orientation(int(id)) == 1 // rows of the file are rows of the image
	packed := CostOf(l.ds, int(id)) == shard.Packed
	if !packed && !l.entries.allows(id) || height == 0 || !indexed.Known() || !stored {
		return 0
	}
	t := l.transform.Choose(epoch, id, height, width)
	top, _, rows, _ := t.Source()
	if below := height - top - rows; indexed.Size/int64(height)*int64(below) < dataset.LeastInOne {
		return 0
	}
	var first int64
	switch {
	case packed:
		const margin = 16 // some rows take more than others
		first = l.front(id) + indexed.Size/int64(height)*int64(top+rows) + indexed.Size/margin
	case l.entries.has(id, indexed):
		scale := l.options.ScaleOf(t)
		top, _, rows, _ = t.Reduced(scale, 0, 0).Source()
		first = l.entries.reach(l.options.Options, height, top+rows, scale)
	}
	if first <= dataset.HeadBytes || indexed.Size-first < dataset.LeastInOne {
		return 0
	}
	return first
}

// partOf returns the byte range that the sample's transform needs.
func (l *Loader) partOf(head []byte, size int64) (from, to int64, ok bool) {
	h, err := decode.ReadHeader(head, false)
	if err != nil {
		return 0, 0, false // reading the whole file will find the fault
	}
	height, width := h.Size(l.options.IgnoreOrientation)
	job := l.options.Plan(h, l.transform.Choose(l.epoch, l.id, height, width), pixels.Target{})
	if h.Format != decode.JPEG {
		return decode.PartOf(head, size, job.Region, job.Scale)
	}
	if !l.entries.allows(l.id) {
		return 0, 0, false
	}
	return l.entries.part(l.options.Options, head, size, job.Region, job.Scale)
}

// Judge reads an image's header and returns it with the upright size. It fails if the image
// must not be decoded: it is too large, or not the indexed one.
func (l *Loader) Judge(id int64, data []byte) (head decode.Header, height, width int, err error) {
	if head, err = decode.ReadHeader(data, true); err != nil {
		return head, 0, 0, err
	}
	height, width = head.Size(l.options.IgnoreOrientation)
	if err := bounded(height, width, l.options.MaxPixels); err != nil {
		return head, 0, 0, err
	}
	if h, w := l.ds.Size(int(id), l.options.IgnoreOrientation); h > 0 && (h != height || w != width) {
		return head, 0, 0, fmt.Errorf("%w: %dx%d, but the index says %dx%d", ErrUnfit, height, width, h, w)
	}
	return head, height, width, nil
}
