package convert

import (
	"context"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/decode/pixels"
)

// Maker makes raw files of samples, one at a time, in the memory of its Reader. Each worker has
// its own, and closes it.
type Maker struct {
	*sample.Reader
	ds *dataset.Dataset
	o  Options
}

// NewMaker returns a Maker that shares memory with other Makers. It uses only the options for
// format, pixels and size, which must be valid.
func NewMaker(ds *dataset.Dataset, o Options, memory *sample.Memory) *Maker {
	o = o.filled()
	return &Maker{sample.NewReader(ds, o.pixels(), memory), ds, o}
}

// Make reads sample i and returns its pixels, which belong to m until Done. It waits until
// enough memory is free or ctx is done, and fails with [sample.ErrMemory] if there can never be
// enough.
func (m *Maker) Make(ctx context.Context, i int) (*Raw, error) {
	img, err := m.Read(ctx, i, m.o.FileBytes(m.ds.Size(i, m.o.IgnoreOrientation)))
	if err != nil {
		return nil, err
	}
	transform := m.o.transform()
	t := transform.Choose(0, int64(i), img.Height, img.Width)
	h, w := t.Size()
	rgb, err := m.Output(3 * h * w)
	if err != nil {
		return nil, err
	}
	if err := m.Draw(img, t, pixels.Target{Pix: rgb, Stride: 3 * w}); err != nil {
		return nil, &dataset.FileError{Path: m.ds.Path(i), Err: err}
	}
	r := newRaw(m.o.Format, h, w, m.o.Format == PPM && isGray(rgb))
	r.rgb = rgb
	return r, nil
}
