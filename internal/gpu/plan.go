package gpu

import (
	"errors"
	"fmt"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/layout"
)

// errSteps is the error for samples reduced to less than 1/128 along an axis: only the processor
// can make them.
var errSteps = errors.New("gpu: the image is reduced to less than 1/128")

// A Tensor is what the kernels write: slots as layout describes them.
type Tensor struct {
	Spec      layout.Spec
	Converter *layout.Converter
	Fill      uint8 // the value of pixels beyond a sample's own
	In        *Slot // where Make makes it; the caller holds the slot; nil: Make returns the tensor
}

// A Sample is one sample of a batch. Its Job needs no Target.
type Sample struct {
	Slot   int
	Job    pixels.Job
	Data   []byte // a whole file, which must not change before Put returns
	NVJPEG bool   // nvJPEG decodes it at full size, not the kernels
}

// A Plan is the work for a batch. Several goroutines may call Put and Pixels at once for different
// samples.
type Plan struct {
	Staging int // bytes of the staging buffer, on the host and on the device
	Work    int // bytes of the device's memory besides that buffer and the tensor
	files   int // bytes after the staging buffer, only on the host

	tensor  Tensor
	samples []planned
	jpegs   []int // samples that the kernels decode
	images  []int // those that nvJPEG decodes
	tile    int   // columns that a block of bfs_place makes
	bits    int   // per stretch of entropy-coded data
	grid    int   // most blocks along all axes of a grid but the first
	in      struct{ samples, encoded, elements int }
}

// planned is a sample with the places of its parts.
type planned struct {
	Sample
	y, x                         resample.Filter
	atY, weightsY, atX, weightsX int // in the staging buffer
	decoded                      bool
	packed                       decode.Prepared
	file                         int // in Plan.files, if nvJPEG decodes the image
	pix, work                    int // if the kernels decode the JPEG, its packed form and memory; else pix is its pixels
}

// NewPlan plans a batch. No two samples may have the same slot. The error is about a sample
// that does not fit its slot, or is reduced to less than 1/128 along an axis.
func NewPlan(t Tensor, samples []Sample) (*Plan, error) { return newPlan(t, samples, stretchBits) }

func newPlan(t Tensor, samples []Sample, bits int) (*Plan, error) {
	p := &Plan{tensor: t, samples: make([]planned, len(samples)), tile: mostTile, bits: bits, grid: mostGrid}
	allot(&p.Staging, batchBytes)
	p.in.samples, p.in.encoded = allot(&p.Staging, len(samples)*sampleBytes), allot(&p.Staging, len(samples)*encodedBytes)
	p.in.elements = allot(&p.Staging, 4*256*t.Spec.C)
	allot(&p.Work, 4*len(samples)) // verdicts come first
	for i, s := range samples {
		p.samples[i].Sample = s
		if err := p.add(i); err != nil {
			return nil, err
		}
	}
	for p.tile > 1 && p.shared(p.tile) > mostShared {
		p.tile /= 2
	}
	return p, nil
}

// allot allots n bytes of a buffer, and adds them to its size.
func allot(size *int, n int) (at int) {
	at = *size
	*size += (n + alignment - 1) &^ (alignment - 1)
	return at
}

func (p *Plan) add(i int) error {
	s, spec := &p.samples[i], p.tensor.Spec
	h, w := s.Job.Transform.Size()
	if s.Slot < 0 || s.Slot >= spec.N || h > spec.H || w > spec.W {
		return fmt.Errorf("gpu: %dx%d pixels in slot %d of a batch of %d x %dx%d", h, w, s.Slot, spec.N, spec.H, spec.W)
	}
	var ok bool
	if s.y, s.x, ok = s.Job.Transform.Filters(); !ok {
		return errSteps
	}
	if !s.Job.Transform.Copies() {
		s.atY, s.weightsY = allot(&p.Staging, 4*h), allot(&p.Staging, 2*h*s.y.Taps)
		s.atX, s.weightsX = allot(&p.Staging, 4*w), allot(&p.Staging, 2*w*s.x.Taps)
	}
	if s.NVJPEG {
		height, width := s.Job.Stored()
		p.images = append(p.images, i)
		s.decoded, s.file, s.work = true, allot(&p.files, len(s.Data)), allot(&p.Work, height*width*spec.C)
	} else if s.packed, s.decoded = s.Job.Pack(s.Data, p.bits); s.decoded {
		p.jpegs = append(p.jpegs, i)
		s.pix, s.work = allot(&p.Staging, int(s.packed.Bytes)), allot(&p.Work, int(s.packed.Work))
	} else {
		s.pix = allot(&p.Staging, s.Job.Height*s.Job.Width*spec.C)
	}
	return nil
}

// Decodes reports whether the GPU decodes sample i.
func (p *Plan) Decodes(i int) bool { return p.samples[i].decoded }

// Pixels returns where to decode sample i if the kernels do not.
func (p *Plan) Pixels(staging []byte, i int) decode.Image {
	s := &p.samples[i]
	stride := s.Job.Width * p.tensor.Spec.C
	n := s.Job.Height * stride
	return decode.Image{Pix: staging[s.pix:][:n:n], Stride: stride, Height: s.Job.Height, Width: s.Job.Width}
}
