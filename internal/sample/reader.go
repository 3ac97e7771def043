package sample

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/semaphore"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/pinned"
)

// leastMemory is the minimum, so that a sample of an ordinary dataset always fits.
const leastMemory = 64 << 20

// A Memory is the memory that the Readers of a command may use together, in bytes. It is
// safe for concurrent use.
type Memory struct {
	size  int64 // for samples being processed
	keep  int64 // what a Reader may keep of each kind between samples
	space *semaphore.Weighted
	pages sharedPages
}

// NewMemory returns a Memory of limit bytes, but at least 64 MiB, for the given number of Readers.
// A quarter of it is for data that they keep between samples, and for pages that they share.
func NewMemory(limit int64, readers int) *Memory {
	limit = max(limit, leastMemory)
	size := limit - limit/4
	m := &Memory{size: size, keep: min(32<<20, limit/8/int64(max(readers, 1))/3), space: semaphore.NewWeighted(size)}
	m.pages.budget.left.Store(limit / 8)
	return m
}

// fits returns an error if n bytes can never be available.
func (m *Memory) fits(n int64) error {
	if n > m.size {
		return fmt.Errorf("%w: it takes %d bytes, and there may be %d for one sample (--memory-limit)", ErrMemory, n, m.size)
	}
	return nil
}

// A Reader reads and decodes one sample after another, in memory that it reuses. It belongs
// to one goroutine.
type Reader struct {
	ds      *dataset.Dataset
	options pixels.Options
	loader  *Loader
	decoder *decode.Decoder
	memory  *Memory
	taken   int64 // of memory, for the last sample read

	input, pixels, output pinned.Host
}

// NewReader returns a Reader of whole samples. MaxPixels must be set.
func NewReader(ds *dataset.Dataset, o decode.Options, memory *Memory) *Reader {
	memory.pages.begin(ds)
	host := func() pinned.Host { return pinned.NewHost(pinned.DefaultPolicy(), nil) }
	return &Reader{
		ds: ds, options: pixels.Options{Options: o}, loader: NewLoader(ds, resample.Options{}, pixels.Options{Options: o}, nil), decoder: decode.NewDecoder(o),
		memory: memory, input: host(), pixels: host(), output: host(),
	}
}

// Close frees the Reader's memory.
func (r *Reader) Close() {
	r.Done()
	r.memory.pages.end()
	r.decoder.Close()
	for _, p := range r.buffers() {
		p.Free()
	}
}

func (r *Reader) buffers() [3]*pinned.Host { return [...]*pinned.Host{&r.input, &r.pixels, &r.output} }

// An Image is the file of a sample that can be decoded. Data belongs to the Reader.
type Image struct {
	Data          []byte
	header        decode.Header
	Height, Width int              // upright
	seen          dataset.Identity // of the file
}

// Read reads sample i and judges it. It waits until there is memory for the file, its
// pixels, and output bytes. The sample holds this memory until Done, Close or the next Read.
// Package fault says whether an error is the file's; ErrMemory says nothing about the file.
func (r *Reader) Read(ctx context.Context, i int, output int64) (Image, error) {
	r.Done()
	if problem := r.ds.Problem(i); problem != "" {
		return Image{}, fault.New(fault.File, problem)
	}
	data, seen, err := r.fetch(ctx, i, output)
	if err != nil {
		return Image{}, err
	}
	head, h, w, err := r.loader.Judge(int64(i), data)
	if err == nil {
		err = r.memory.fits(int64(len(data)) + 3*int64(h)*int64(w) + r.decoder.Needs(head) + output)
	}
	if err != nil {
		return Image{}, &dataset.FileError{Path: r.ds.Path(i), Err: err}
	}
	return Image{data, head, h, w, seen}, nil
}

// Fetch is Read without judging the file, which belongs to the Reader.
func (r *Reader) Fetch(ctx context.Context, i int) ([]byte, error) {
	r.Done()
	data, _, err := r.fetch(ctx, i, 0)
	return data, err
}

func (r *Reader) fetch(ctx context.Context, i int, output int64) ([]byte, dataset.Identity, error) {
	n, err := r.estimate(i)
	if err != nil {
		return nil, dataset.Identity{}, err
	}
	n = min(n+output, r.memory.size)
	if err := r.memory.space.Acquire(ctx, n); err != nil {
		return nil, dataset.Identity{}, err
	}
	r.taken = n
	return r.load(ctx, i)
}

func (r *Reader) load(ctx context.Context, i int) ([]byte, dataset.Identity, error) {
	var refused error
	grow := func(n int) (p []byte) {
		if refused = r.memory.fits(int64(n)); refused == nil {
			p, refused = room(&r.input, n)
		}
		return p
	}
	data, _, seen, err := r.loader.Load(ctx, 0, int64(i), true, grow)
	switch {
	case refused != nil:
		err = &dataset.FileError{Path: r.ds.Path(i), Err: refused}
	case errors.Is(err, dataset.ErrStopped):
		err = ctx.Err()
	}
	return data, seen, err
}

// estimate is how much memory sample i may take, by the index: for its file, its pixels, and the
// coefficients of a progressive JPEG.
func (r *Reader) estimate(i int) (n int64, err error) {
	h, w := r.ds.Size(i, false)
	if h == 0 {
		return r.memory.size, nil
	}
	if r.ds.Format(i) == arrayFormat {
		h = 0 // there are no pixels
	}
	id := r.ds.Stat(i)
	if !id.Known() { // it came from a manifest
		id, err = r.ds.Check(i)
	}
	return id.Size + 9*int64(h)*int64(w), err
}

// Output returns n bytes, with any contents, for the caller's result. They belong to the Reader,
// and stay until Done.
func (r *Reader) Output(n int) ([]byte, error) { return room(&r.output, n) }

// Draw makes the pixels of an image under a transform.
func (r *Reader) Draw(img Image, t resample.Transform, to pixels.Target) error {
	job := r.options.Plan(img.header, t, to)
	var memory []byte
	var err error
	if job.Memory > 0 {
		if memory, err = room(&r.pixels, job.Memory); err != nil {
			return err
		}
	}
	return job.Run(r.decoder, img.Data, memory)
}

// Pack returns the packed form of an image, from which its file can be restored. It belongs to the
// Reader, and stays until Done. The error is [decode.ErrNoPackedForm] if there is none.
func (r *Reader) Pack(img Image) ([]byte, error) {
	to, err := room(&r.output, int(decode.PackedBound(img.header, int64(len(img.Data)), decode.ForFile)))
	if err != nil {
		return nil, err
	}
	n, err := r.decoder.PackTo(to, img.Data, img.header, decode.ForFile)
	return to[:n], err
}

// Decode decodes a whole image, only to see whether that is possible.
func (r *Reader) Decode(img Image) error {
	return r.Draw(img, resample.Options{}.Choose(0, 0, img.Height, img.Width), pixels.Target{Sink: nowhere{}})
}

// ReadValues reads and decodes the values of a mask, only to see whether that is possible.
func (r *Reader) ReadValues(ctx context.Context, i int) error {
	if problem := r.ds.Problem(i); problem != "" {
		return fault.New(fault.File, problem)
	}
	data, err := r.Fetch(ctx, i)
	if err != nil {
		return err
	}
	head, bytes, err := JudgeMask(data, r.options.MaxPixels)
	size := int64(head.Height) * int64(head.Width) * int64(bytes)
	if err == nil {
		err = r.memory.fits(int64(len(data)) + size + decode.ValueNeeds(head))
	}
	if err != nil {
		return err
	}
	to, err := r.Output(int(size))
	if err != nil {
		return err
	}
	return r.decoder.Values(to, data, head)
}

type nowhere struct{}

func (nowhere) PutRow(int, []byte) {}

// Done releases the memory of the last sample read. The Reader keeps a small part of it for
// the next one.
func (r *Reader) Done() {
	if r.taken == 0 {
		return
	}
	for _, p := range r.buffers() {
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
