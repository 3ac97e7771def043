package convert

import (
	"context"
	"errors"
	"fmt"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/decode"
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

// Make reads sample i and returns its raw file, which belongs to m until Done, and the
// extension for its name: .bmp, .ppm or .pgm. It waits until enough memory is free or ctx is
// done, and fails with [sample.ErrMemory] if there can never be enough.
func (m *Maker) Make(ctx context.Context, i int) (file []byte, ext string, err error) {
	img, err := m.reader.Read(ctx, i, m.options.FileBytes(m.ds.Size(i, m.options.IgnoreOrientation)))
	if err != nil {
		return nil, "", readError(err)
	}
	r, err := m.draw(i, img)
	if err != nil {
		return nil, "", decodeError(m.ds.Path(i), err)
	}
	file, ext = r.finish()
	return file, ext, nil
}

// Done releases the memory of the last sample to other Makers.
func (m *Maker) Done() { m.reader.Done() }

func (m *Maker) draw(i int, img sample.Image) (*rawFile, error) {
	t := m.transform.Choose(0, int64(i), img.Height, img.Width)
	h, w := t.Size()
	r := newRawFile(m.options.Format, h, w)
	if err := r.fits(); err != nil {
		return nil, err
	}
	memory, err := m.reader.Output(int(r.size()))
	if err != nil {
		return nil, err
	}
	r.begin(memory)
	return &r, m.reader.Draw(img, t, pixels.Target{Pix: r.pixels(), Stride: r.stride})
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
	for _, fatal := range []error{sample.ErrMemory, decode.ErrMemory, decode.ErrDestination, resample.ErrGeometry, resample.ErrScratch} {
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
