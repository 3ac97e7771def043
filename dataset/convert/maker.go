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
	h, w := t.Size()
	m.rgb = room(m.rgb, 3*h*w)
	if err := m.render(img, t, h, w); err != nil {
		return nil, &dataset.FileError{Path: m.ds.Path(i), Err: err}
	}
	r := newRaw(m.options.Format, h, w, m.options.Format == PPM && isGray(m.rgb))
	r.rgb = m.rgb
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

// render decodes the region the transform needs into m.rgb, at a reduced scale if possible,
// and filters it, as a mount does.
func (m *Maker) render(img sample.Image, t resample.Transform, height, width int) error {
	if t.Copies() && height == img.Height && width == img.Width {
		return m.reader.Decoder().Decode(decode.Image{Pix: m.rgb, Stride: 3 * width, Height: height, Width: width}, img.Data, img.Header)
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
	return resample.Resize(rows{m.rgb, 3 * width}, source, t.Moved(y, x), m.scratch)
}

// rows receives rows from the resizer.
type rows struct {
	rgb    []byte
	stride int
}

func (r rows) PutRow(y int, row []byte) { copy(r.rgb[y*r.stride:], row) }

// room returns n bytes, reusing p if it is large enough.
func room(p []byte, n int) []byte {
	if cap(p) < n {
		return make([]byte, n)
	}
	return p[:n]
}
