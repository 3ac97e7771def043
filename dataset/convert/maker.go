package convert

import (
	"context"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
)

// Maker makes raw files of samples, one at a time, in memory that it reuses. Each worker has
// its own.
type Maker struct {
	ds      *dataset.Dataset
	options Options
	reader  *sample.Reader
	keep    int // bytes of each buffer to keep between samples

	source, scratch, rgb []byte
}

// NewMaker returns a Maker that shares memory with other Makers. It uses only the options for
// format, pixels and size, which must be valid.
func NewMaker(ds *dataset.Dataset, o Options, memory *sample.Memory) *Maker {
	o = o.filled()
	return &Maker{ds: ds, options: o, reader: sample.NewReader(ds, o.pixels(), memory), keep: int(memory.Keep())}
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
	transform := m.options.transform()
	t := transform.Choose(0, int64(i), img.Height, img.Width)
	r := &Raw{format: m.options.Format}
	r.height, r.width = t.Size()
	m.rgb = room(m.rgb, 3*r.height*r.width)
	r.rgb = m.rgb
	if err := m.render(r, img, t); err != nil {
		return nil, &dataset.FileError{Path: m.ds.Path(i), Err: err}
	}
	r.gray = r.format == PPM && isGray(r.rgb)
	return r, nil
}

// Done releases the memory of the last sample to other Makers.
func (m *Maker) Done() {
	for _, p := range []*[]byte{&m.source, &m.scratch, &m.rgb} {
		if cap(*p) > m.keep {
			*p = nil
		}
	}
	m.reader.Done()
}

// render decodes the region the transform needs, at a reduced scale if possible, and filters
// it, as a mount does.
func (m *Maker) render(r *Raw, img sample.Image, t resample.Transform) error {
	if t.Copies() && r.height == img.Height && r.width == img.Width {
		return m.reader.Decoder().Decode(decode.Image{Pix: r.rgb, Stride: 3 * r.width, Height: r.height, Width: r.width}, img.Data, img.Header)
	}
	pixels, scale := m.options.pixels(), 1
	if img.Header.Format == decode.JPEG {
		scale = t.Scale()
	}
	if scale > 1 {
		offY, offX := pixels.ScaleOffset(img.Header, scale)
		t = t.Reduced(scale, offY, offX)
	}
	y, x, h, w := t.Source()
	m.source = room(m.source, 3*h*w)
	region := pixels.StoredRegion(img.Header, decode.Region{X: x, Y: y, W: w, H: h}, scale)
	to := decode.Image{Pix: m.source, Stride: 3 * w, Height: h, Width: w}
	if err := m.reader.Decoder().DecodeRegion(to, img.Data, img.Header, region, scale); err != nil {
		return err
	}
	m.scratch = room(m.scratch, resample.ScratchBytes(t, 3))
	source := resample.Image{Pix: m.source, Stride: 3 * w, Height: h, Width: w, Channels: 3}
	return resample.Resize(r, source, t.Moved(y, x), m.scratch)
}

// PutRow receives a row from the resizer.
func (r *Raw) PutRow(y int, row []byte) { copy(r.rgb[3*r.width*y:], row) }

// room returns n bytes, reusing p if it is large enough.
func room(p []byte, n int) []byte {
	if cap(p) < n {
		return make([]byte, n)
	}
	return p[:n]
}
