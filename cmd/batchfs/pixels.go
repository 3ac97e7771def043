package main

import (
	"fmt"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
)

// pixelReader decodes samples of a dataset, one after the other, into one
// buffer that it reuses. It belongs to one goroutine.
type pixelReader struct {
	ds      *dataset.Dataset
	options decode.Options
	decoder *decode.Decoder
	encoded []byte
	pixels  []byte
}

func newPixelReader(ds *dataset.Dataset, o decode.Options) *pixelReader {
	return &pixelReader{ds: ds, options: o, decoder: decode.NewDecoder(o)}
}

func (p *pixelReader) close() { p.decoder.Close() }

// load reads sample i as it is stored. The bytes are p's, until the next load.
func (p *pixelReader) load(i int) ([]byte, error) {
	data, err := p.ds.Read(i, p.encoded, func(n int) []byte { return make([]byte, n) })
	if err == nil {
		p.encoded = data
	}
	return data, err
}

// read loads and decodes sample i, and holds it against what the index or the
// manifest says about its size.
func (p *pixelReader) read(i int) error {
	data, err := p.load(i)
	if err != nil {
		return err
	}
	height, width, err := p.decode(data)
	if err != nil {
		return err
	}
	if wantH, wantW := p.ds.Size(i, p.options.IgnoreOrientation); wantH > 0 && (wantH != height || wantW != width) {
		return fmt.Errorf("is %dx%d, but the index says %dx%d", height, width, wantH, wantW)
	}
	return nil
}

// decode puts an image's pixels into p's buffer.
func (p *pixelReader) decode(data []byte) (height, width int, err error) {
	h, err := decode.ReadHeader(data, true)
	if err != nil {
		return 0, 0, err
	}
	height, width = h.Size(p.options.IgnoreOrientation)
	if pixels := int64(height) * int64(width); pixels > p.options.MaxPixels {
		return 0, 0, fmt.Errorf("%w: %dx%d is more than --max-pixels %d", decode.ErrTooLarge, height, width, p.options.MaxPixels)
	}
	stride := width * p.options.Color.Channels()
	if size := stride * height; cap(p.pixels) < size {
		p.pixels = make([]byte, size)
	}
	dst := decode.Image{Pix: p.pixels[:stride*height], Stride: stride, Height: height, Width: width}
	return height, width, p.decoder.Decode(dst, data, h)
}
