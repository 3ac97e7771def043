package convert

import (
	"context"
	"errors"
	"fmt"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
)

// Maker makes raw files of samples, one at a time, in memory that it reuses. Each worker has
// its own.
type Maker struct {
	ds        *dataset.Dataset
	options   Options
	pixels    decode.Options
	transform resample.Options
	reader    *sample.Reader
	keep      int // bytes of each buffer to keep between samples

	source, scratch, file []byte
}

// NewMaker returns a Maker that shares memory with other Makers. It uses only the options for
// format, pixels and size, which must be valid.
func NewMaker(ds *dataset.Dataset, o Options, memory *sample.Memory) *Maker {
	o = o.filled()
	return &Maker{
		ds: ds, options: o, pixels: o.pixels(), transform: o.transform(), reader: sample.NewReader(ds, o.pixels(), memory),
		keep: int(memory.Keep()),
	}
}

// Close frees what the Maker holds.
func (m *Maker) Close() { m.reader.Close() }

// Make reads sample i and returns its raw file, which belongs to m until Done, and the
// extension for its name: .bmp, .ppm or .pgm. It waits until enough memory is free or ctx is
// done, and fails with [sample.ErrMemory] if there can never be enough.
func (m *Maker) Make(ctx context.Context, i int) (file []byte, ext string, err error) {
	img, err := m.reader.Read(ctx, i, m.options.FileBytes(m.ds.Size(i, m.options.IgnoreOrientation)))
	if err != nil {
		return nil, "", readError(err)
	}
	r, err := m.decode(i, img)
	if err != nil {
		return nil, "", decodeError(m.ds.Path(i), err)
	}
	file, ext = r.finish()
	return file, ext, nil
}

// Done releases the memory of the last sample to other Makers.
func (m *Maker) Done() {
	for _, p := range []*[]byte{&m.source, &m.scratch, &m.file} {
		if cap(*p) > m.keep {
			*p = nil
		}
	}
	m.reader.Done()
}

func (m *Maker) decode(i int, img sample.Image) (*rawFile, error) {
	h, w := img.Height, img.Width
	t := m.transform.Choose(0, int64(i), h, w)
	outH, outW := t.Size()
	r := newRawFile(m.options.Format, outH, outW)
	if err := r.fits(); err != nil {
		return nil, err
	}
	m.file = room(m.file, int(r.size()))
	r.begin(m.file)
	if t.Copies() && outH == h && outW == w {
		return &r, m.reader.Decoder().Decode(decode.Image{Pix: r.pixels(), Stride: r.stride, Height: h, Width: w}, img.Data, img.Header)
	}
	return &r, m.resize(&r, img.Data, img.Header, t)
}

// resize decodes the region the transform needs, at a reduced scale if possible, and filters
// it, as a mount does.
func (m *Maker) resize(r *rawFile, data []byte, head decode.Header, t resample.Transform) error {
	scale := 1
	if head.Format == decode.JPEG {
		scale = t.Scale()
	}
	if scale > 1 {
		offY, offX := m.pixels.ScaleOffset(head, scale)
		t = t.Reduced(scale, offY, offX)
	}
	y, x, h, w := t.Source()
	m.source = room(m.source, 3*h*w)
	region := m.pixels.StoredRegion(head, decode.Region{X: x, Y: y, W: w, H: h}, scale)
	if err := m.reader.Decoder().DecodeRegion(decode.Image{Pix: m.source, Stride: 3 * w, Height: h, Width: w}, data, head, region, scale); err != nil {
		return err
	}
	m.scratch = room(m.scratch, resample.ScratchBytes(t, 3))
	source := resample.Image{Pix: m.source, Stride: 3 * w, Height: h, Width: w, Channels: 3}
	return resample.Resize(r, source, t.Moved(y, x), m.scratch, resample.Fastest)
}

// room returns n bytes, reusing p if it is large enough.
func room(p []byte, n int) []byte {
	if cap(p) < n {
		return make([]byte, n)
	}
	return p[:n]
}

// readError distinguishes a bad file, which is kept as it is, from one that changed, which ends
// the run, as does any failure of the machine.
func readError(err error) error {
	for _, changed := range []error{dataset.ErrChanged, dataset.ErrMissing, dataset.ErrNotFile} {
		if errors.Is(err, changed) {
			return fmt.Errorf("%w: %w", ErrSource, err)
		}
	}
	return sourceError(err)
}

// decodeError distinguishes a bad image from a failure of the machine.
func decodeError(path string, err error) error {
	for _, fatal := range []error{decode.ErrMemory, decode.ErrDestination, resample.ErrGeometry, resample.ErrScratch} {
		if errors.Is(err, fatal) {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return &unreadableError{err}
}

// FileBytes is the size of the raw file for a sample of h x w pixels, upright. If the file may
// become a PGM, it is an upper bound.
func (o Options) FileBytes(h, w int) int64 {
	h, w = o.transform().Size(h, w)
	r := newRawFile(o.Format, h, w)
	return r.size()
}
