package convert

import (
	"context"
	"errors"
	"fmt"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/resample"
)

// Maker makes raw files of samples, one at a time, in memory that it reuses: one for
// each worker.
type Maker struct {
	ds        *dataset.Dataset
	format    Format
	pixels    decode.Options
	transform resample.Options
	decoder   *decode.Decoder

	encoded, source, scratch, file []byte
}

// NewMaker returns a Maker. The options that matter are those of format, pixels and
// size; they are right.
func NewMaker(ds *dataset.Dataset, o Options) *Maker {
	o = o.filled()
	return &Maker{
		ds: ds, format: o.Format, pixels: o.pixels(), transform: o.transform(),
		decoder: decode.NewDecoder(o.pixels()),
	}
}

// Close frees what the Maker holds.
func (m *Maker) Close() { m.decoder.Close() }

// Make reads sample i and returns its raw file, which is m's until the next call, and
// the extension for its name: .bmp, .ppm or .pgm. Where a dataset's bandwidth is
// limited, reading ends when ctx does.
func (m *Maker) Make(ctx context.Context, i int) (file []byte, ext string, err error) {
	data, _, err := m.ds.Load(i, m.encoded, newInput, ctx.Done())
	if errors.Is(err, dataset.ErrStopped) {
		return nil, "", ctx.Err()
	}
	if err != nil {
		return nil, "", readError(err)
	}
	m.encoded = data
	r, err := m.decode(i, data)
	if err != nil {
		return nil, "", decodeError(m.ds.Path(i), err)
	}
	file, ext = r.finish()
	return file, ext, nil
}

func (m *Maker) decode(i int, data []byte) (*rawFile, error) {
	head, err := decode.ReadHeader(data, true)
	if err != nil {
		return nil, err
	}
	h, w := head.Size(m.pixels.IgnoreOrientation)
	if ih, iw := m.ds.Size(i, m.pixels.IgnoreOrientation); ih > 0 && (h != ih || w != iw) {
		return nil, fmt.Errorf("it is %dx%d, but the index says %dx%d", h, w, ih, iw)
	}
	if n := int64(h) * int64(w); n > m.pixels.MaxPixels {
		return nil, fmt.Errorf("%w: %d pixels, at most %d are allowed", decode.ErrTooLarge, n, m.pixels.MaxPixels)
	}
	t := m.transform.Choose(0, int64(i), h, w)
	outH, outW := t.Size()
	r := newRawFile(m.format, outH, outW)
	if err := r.fits(); err != nil {
		return nil, err
	}
	m.file = room(m.file, int(r.size()))
	r.begin(m.file)
	if t.Copies() && outH == h && outW == w {
		return &r, m.decoder.Decode(decode.Image{Pix: r.pixels(), Stride: r.stride, Height: h, Width: w}, data, head)
	}
	return &r, m.resize(&r, data, head, t)
}

// resize decodes what the transform looks at, at the scale that serves, and filters it,
// as a mount does.
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
	if err := m.decoder.DecodeRegion(decode.Image{Pix: m.source, Stride: 3 * w, Height: h, Width: w}, data, head, region, scale); err != nil {
		return err
	}
	m.scratch = room(m.scratch, resample.ScratchBytes(t, 3))
	source := resample.Image{Pix: m.source, Stride: 3 * w, Height: h, Width: w, Channels: 3}
	return resample.Resize(r, source, t.Moved(y, x), m.scratch)
}

// newInput makes memory to read into: not so little that Go would pack it in with other
// things, so that it is aligned for direct reads.
func newInput(n int) []byte { return make([]byte, max(n, 64<<10)) }

// room is n bytes, of memory that is there already if it is enough.
func room(p []byte, n int) []byte {
	if cap(p) < n {
		return make([]byte, n)
	}
	return p[:n]
}

// keepBytes is how much of each kind of memory a worker keeps between samples.
const keepBytes = 32 << 20

// trim gives back what an unusually large sample left behind.
func (m *Maker) trim() {
	for _, p := range []*[]byte{&m.encoded, &m.source, &m.scratch, &m.file} {
		if cap(*p) > keepBytes {
			*p = nil
		}
	}
	if m.decoder.ScratchBytes() > keepBytes {
		m.decoder.Trim()
	}
}

// readError tells a file that changed, which ends the run, from one that the disk does
// not give.
func readError(err error) error {
	var file *dataset.FileError
	switch {
	case errors.Is(err, dataset.ErrChanged), errors.Is(err, dataset.ErrMissing), errors.Is(err, dataset.ErrNotFile):
		return fmt.Errorf("%w: %w", ErrSource, err)
	case !errors.As(err, &file):
		return err
	}
	return sourceError(err)
}

// decodeError tells an image that is at fault from a machine that is.
func decodeError(path string, err error) error {
	for _, fatal := range []error{decode.ErrMemory, decode.ErrDestination, resample.ErrGeometry, resample.ErrScratch} {
		if errors.Is(err, fatal) {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return &unreadableError{err}
}

// FileBytes is the size of the raw file that a sample of upright h x w pixels becomes;
// where it may become a PGM, the most it can be.
func (o Options) FileBytes(h, w int) int64 {
	h, w = o.transform().Size(h, w)
	r := newRawFile(o.Format, h, w)
	return r.size()
}
