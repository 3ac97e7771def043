package sample

import (
	"context"
	"errors"
	"fmt"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/pinned"
	"github.com/batchfs/batchfs/resample"
)

// A Reader reads and decodes samples one after the other, in memory that it reuses. It
// belongs to one goroutine.
type Reader struct {
	ds      *dataset.Dataset
	options decode.Options
	loader  *Loader
	decoder *decode.Decoder
	memory  *Memory
	taken   int64       // of memory, for the sample that was read last
	input   pinned.Host // its file
	pixels  pinned.Host
}

// NewReader returns a Reader of whole samples. MaxPixels must be given.
func NewReader(ds *dataset.Dataset, o decode.Options, memory *Memory) *Reader {
	return &Reader{
		ds: ds, options: o, loader: NewLoader(ds, resample.Options{}, o), decoder: decode.NewDecoder(o), memory: memory,
		input: pinned.NewHost(pinned.DefaultPolicy(), nil), pixels: pinned.NewHost(pinned.DefaultPolicy(), nil),
	}
}

// Close frees what the Reader holds.
func (r *Reader) Close() {
	r.release()
	r.decoder.Close()
	r.input.Free()
	r.pixels.Free()
}

// Decoder is the one that the Reader uses.
func (r *Reader) Decoder() *decode.Decoder { return r.decoder }

// An Image is a sample's file, which holds an image that may be decoded. Data is the
// Reader's.
type Image struct {
	Data          []byte
	Header        decode.Header
	Height, Width int // upright
}

// Read reads sample i and judges it. It waits until there is memory for it, for its pixels,
// and for beside bytes that the caller needs; all of it is the sample's until Done, Close or
// the next Read. An error is the file's where OfFile says so; ErrMemory is neither.
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

// estimate is what sample i may take, as far as the index knows: its file, its pixels, and
// the coefficients of a progressive JPEG.
func (r *Reader) estimate(i int) (int64, error) {
	h, w := r.ds.Size(i, false)
	if h == 0 {
		return r.memory.size, nil
	}
	id := r.ds.Stat(i)
	if !id.Known() { // a manifest described it
		var err error
		if id, err = r.ds.Check(i); err != nil {
			return 0, err
		}
	}
	return id.Size + 9*int64(h)*int64(w), nil
}

// Decode decodes all of an image into memory of the Reader's.
func (r *Reader) Decode(img Image) error {
	stride := img.Width * r.options.Color.Channels()
	pixels, err := room(&r.pixels, stride*img.Height)
	if err != nil {
		return err
	}
	dst := decode.Image{Pix: pixels, Stride: stride, Height: img.Height, Width: img.Width}
	return r.decoder.Decode(dst, img.Data, img.Header)
}

// Done lets others have the memory of the sample that was read last. What the Reader keeps
// for the next one is not much.
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
