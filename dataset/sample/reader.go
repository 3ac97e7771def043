package sample

import (
	"context"
	"errors"
	"fmt"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/pinned"
)

// A Reader reads and decodes one sample after another, in memory that it reuses. It belongs
// to one goroutine.
type Reader struct {
	ds      *dataset.Dataset
	options decode.Options
	loader  *Loader
	decoder *decode.Decoder
	memory  *Memory
	taken   int64       // of memory, for the last sample read
	input   pinned.Host // its file
	pixels  pinned.Host
}

// NewReader returns a Reader of whole samples. MaxPixels must be set.
func NewReader(ds *dataset.Dataset, o decode.Options, memory *Memory) *Reader {
	return &Reader{
		ds: ds, options: o, loader: NewLoader(ds, resample.Options{}, o), decoder: decode.NewDecoder(o), memory: memory,
		input: pinned.NewHost(pinned.DefaultPolicy(), nil), pixels: pinned.NewHost(pinned.DefaultPolicy(), nil),
	}
}

// Close frees the Reader's memory.
func (r *Reader) Close() {
	r.release()
	r.decoder.Close()
	r.input.Free()
	r.pixels.Free()
}

// Decoder is the Reader's decoder.
func (r *Reader) Decoder() *decode.Decoder { return r.decoder }

// An Image is the file of a sample that can be decoded. Data belongs to the Reader.
type Image struct {
	Data          []byte
	Header        decode.Header
	Height, Width int // upright
}

// Read reads sample i and judges it. It waits until there is memory for the file, its
// pixels, and beside bytes for the caller. The sample holds this memory until Done, Close
// or the next Read. An error is the file's fault if OfFile says so; ErrMemory says
// nothing about the file.
func (r *Reader) Read(ctx context.Context, i int, beside int64) (Image, error) {
	r.release()
	if problem := r.ds.Problem(i); problem != "" {
		return Image{}, Problem(problem)
	}
	estimate, err := r.estimate(i)
	if err != nil {
		return Image{}, err
	}
	if r.taken, err = r.memory.take(ctx, estimate+beside); err != nil {
		return Image{}, err
	}
	var refused error
	grow := func(n int) (p []byte) {
		if refused = r.memory.fits(int64(n)); refused == nil {
			p, refused = room(&r.input, n)
		}
		return p
	}
	data, _, _, err := r.loader.Load(0, int64(i), true, grow, ctx.Done())
	switch {
	case refused != nil:
		return Image{}, &dataset.FileError{Path: r.ds.Path(i), Err: refused}
	case errors.Is(err, dataset.ErrStopped):
		return Image{}, ctx.Err()
	case err != nil:
		return Image{}, err
	}
	head, h, w, err := r.loader.Judge(int64(i), data)
	if err == nil {
		err = r.memory.fits(int64(len(data)) + 3*int64(h)*int64(w) + r.decoder.Needs(head) + beside)
	}
	if err != nil {
		return Image{}, &dataset.FileError{Path: r.ds.Path(i), Err: err}
	}
	return Image{data, head, h, w}, nil
}

// estimate is the memory that sample i may take, as far as the index tells: its file, its
// pixels, and the coefficients of a progressive JPEG.
func (r *Reader) estimate(i int) (int64, error) {
	h, w := r.ds.Size(i, false)
	if h == 0 {
		return r.memory.size, nil
	}
	id := r.ds.Stat(i)
	if !id.Known() { // it came from a manifest
		var err error
		if id, err = r.ds.Check(i); err != nil {
			return 0, err
		}
	}
	return id.Size + 9*int64(h)*int64(w), nil
}

// Decode decodes a whole image into the Reader's memory.
func (r *Reader) Decode(img Image) error {
	stride := img.Width * r.options.Color.Channels()
	pixels, err := room(&r.pixels, stride*img.Height)
	if err != nil {
		return err
	}
	dst := decode.Image{Pix: pixels, Stride: stride, Height: img.Height, Width: img.Width}
	return r.decoder.Decode(dst, img.Data, img.Header)
}

// Done releases the memory of the last sample read. The Reader keeps a small part of it for
// the next one.
func (r *Reader) Done() { r.release() }

func (r *Reader) release() {
	if r.taken == 0 {
		return
	}
	for _, p := range []*pinned.Host{&r.input, &r.pixels} {
		if p.Bytes() > r.memory.keep {
			p.Free()
		}
	}
	if r.decoder.ScratchBytes() > r.memory.keep {
		r.decoder.Trim()
	}
	r.memory.space.Release(r.taken)
	r.taken = 0
}

func room(h *pinned.Host, n int) ([]byte, error) {
	p, err := h.Grow(n)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMemory, err)
	}
	return p, nil
}
