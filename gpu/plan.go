package gpu

import (
	"fmt"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/pixels"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/layout"
)

// A Tensor is what the kernels write: slots as layout describes them.
type Tensor struct {
	Spec      layout.Spec
	Converter *layout.Converter
	Fill      uint8 // the value of pixels beyond a sample's own
}

// A Sample is one sample of a batch. Its Job needs no Target.
type Sample struct {
	Slot int
	Job  pixels.Job
	Data []byte // a whole file, not changed until Put has returned
}

// A Plan is the work for a batch. Methods other than Put and Pixels are not for use by several goroutines.
type Plan struct {
	Staging int // bytes of the staging buffer
	Work    int // bytes of the device's memory besides that buffer and the tensor

	tensor  Tensor
	samples []planned
	tile    int // columns that a block of bfs_place makes
}

// planned is where a sample's parts are.
type planned struct {
	Sample
	y, x                         resample.Filter
	pix                          int // in staging
	atY, weightsY, atX, weightsX int
}

// NewPlan plans a batch. Samples must fit the tensor and its slots. The error is ErrSteps if one is reduced
// so much that kernels cannot do it.
func NewPlan(t Tensor, samples []Sample) (*Plan, error) {
	p := &Plan{tensor: t, samples: make([]planned, len(samples)), tile: mostTile}
	p.Staging = aligned(batchBytes) + aligned(len(samples)*sampleBytes) + aligned(4*256*t.Spec.C)
	for i, s := range samples {
		if err := p.add(&p.samples[i], s); err != nil {
			return nil, err
		}
	}
	for p.tile > 1 && p.shared(p.tile) > mostShared {
		p.tile /= 2
	}
	return p, nil
}

// ErrSteps is the error for samples that are reduced to less than 1/128 along an axis.
var ErrSteps = fmt.Errorf("gpu: the image is reduced to less than 1/128")

func (p *Plan) add(to *planned, s Sample) error {
	to.Sample = s
	h, w := s.Job.Transform.Size()
	spec := p.tensor.Spec
	if s.Slot < 0 || s.Slot >= spec.N || h > spec.H || w > spec.W {
		return fmt.Errorf("gpu: %dx%d pixels in slot %d of %v", h, w, s.Slot, spec.Shape())
	}
	var ok bool
	if to.y, to.x, ok = s.Job.Transform.Filters(); !ok {
		return ErrSteps
	}
	if !s.Job.Transform.Copies() {
		to.atY, to.weightsY = p.take(4*h), p.take(2*h*to.y.Taps)
		to.atX, to.weightsX = p.take(4*w), p.take(2*w*to.x.Taps)
	}
	to.pix = p.take(s.Job.Height * s.Job.Width * spec.C)
	return nil
}

// take allots n bytes of the staging buffer.
func (p *Plan) take(n int) (at int) {
	at = p.Staging
	p.Staging += aligned(n)
	return at
}

// Pixels returns where to decode sample i, if the kernels do not.
func (p *Plan) Pixels(staging []byte, i int) decode.Image {
	s := &p.samples[i]
	stride := s.Job.Width * p.tensor.Spec.C
	n := s.Job.Height * stride
	return decode.Image{Pix: staging[s.pix:][:n:n], Stride: stride, Height: s.Job.Height, Width: s.Job.Width}
}

// Put writes all of sample i but its pixels into the staging buffer.
func (p *Plan) Put(staging []byte, i int) {
	s := &p.samples[i]
	t, spec := s.Job.Transform, p.tensor.Spec
	h, w := t.Size()
	out := sample{
		slot: uint64(int64(s.Slot) * spec.SampleBytes()), height: int32(h), width: int32(w),
		rows: int32(s.y.Size), columns: int32(s.x.Size), tapsY: int32(s.y.Taps), tapsX: int32(s.x.Taps),
		shiftY: int32(s.y.Shift), shiftX: int32(s.x.Shift), flip: flag(t.Flip), copies: flag(t.Copies()),
		atY: uint64(s.atY), weightsY: uint64(s.weightsY), atX: uint64(s.atX), weightsX: uint64(s.weightsX),
	}
	if !t.Copies() {
		s.y.Fill(view[int32](staging, s.atY, h), view[int16](staging, s.weightsY, h*s.y.Taps))
		s.x.Fill(view[int32](staging, s.atX, w), view[int16](staging, s.weightsX, w*s.x.Taps))
	}
	stride := s.Job.Width * spec.C
	out.dy, out.dx, out.dc = int64(stride), int64(spec.C), 1
	out.pix = uint64(int64(s.pix) + int64(s.y.First)*out.dy + int64(s.x.First)*out.dx)
	put(staging, aligned(batchBytes)+i*sampleBytes, out)
}

// Finish writes what the kernels are told of the batch. The addresses are those of the staging buffer's copy, of Work
// and of the tensor's first element on the device, all multiples of 128.
func (p *Plan) Finish(buffer []byte, staging, work, slots uint64) {
	s := p.tensor.Spec
	samples := aligned(batchBytes)
	elements := samples + aligned(len(p.samples)*sampleBytes)
	put(buffer, 0, batch{
		staging: staging, work: work, slots: slots, samples: uint64(samples), elements: uint64(elements),
		count: int32(len(p.samples)), slotHeight: int32(s.H), slotWidth: int32(s.W),
		channels: int32(s.C), size: int32(s.DType.Size()), planar: flag(s.Order == layout.NCHW), tile: int32(p.tile), fill: int32(p.tensor.Fill),
	})
	for c := range s.C {
		e := p.tensor.Converter.Elements(c)
		put(buffer, elements+c*4*256, e[:]...)
	}
}

func (p *Plan) verdicts() int { return 0 }
