package convert

import (
	"context"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/decode/pixels"
	"github.com/batchfs/batchfs/decode/resample"
)

// Maker makes raw files of samples, one at a time, in memory that it reuses. Each worker has
// its own.
type Maker struct {
	ds        *dataset.Dataset
	options   Options
	transform resample.Options
	reader    *sample.Reader
}

// NewMaker returns a Maker that shares memory with other Makers. It uses only the options for
// format, pixels and size, which must be valid.
func NewMaker(ds *dataset.Dataset, o Options, memory *sample.Memory) *Maker {
	o = o.filled()
	return &Maker{ds: ds, options: o, transform: o.transform(), reader: sample.NewReader(ds, o.pixels(), memory)}
}

// Close frees what the Maker holds.
func (m *Maker) Close() { m.reader.Close() }

// Make reads sample i and returns its pixels, which belong to m until Done. It waits until
// enough memory is free or ctx is done, and fails with [sample.ErrMemory] if there can never be
// enough.
func (m *Maker) Make(ctx context.Context, i int) (*Raw, error) {
	img, err := m.reader.Read(ctx, i, m.options.FileBytes(m.ds.Size(i, m.options.IgnoreOrientation)))
	if err != nil {
		return nil, err
	}
	t := m.transform.Choose(0, int64(i), img.Height, img.Width)
	h, w := t.Size()
	rgb, err := m.reader.Output(3 * h * w)
	if err != nil {
		return nil, err
	}
	if err := m.reader.Draw(img, t, pixels.Target{Pix: rgb, Stride: 3 * w}); err != nil {
		return nil, &dataset.FileError{Path: m.ds.Path(i), Err: err}
	}
	r := newRaw(m.options.Format, h, w, m.options.Format == PPM && isGray(rgb))
	r.rgb = rgb
	return r, nil
}

// Done releases the memory of the last sample to other Makers.
func (m *Maker) Done() { m.reader.Done() }
