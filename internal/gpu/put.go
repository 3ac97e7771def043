package gpu

import (
	"github.com/batchfs/batchfs/internal/cuda"
	"github.com/batchfs/batchfs/layout"
)

// Put writes sample i into the staging buffer and p.files, except for what belongs into Pixels. The
// buffer must start at a multiple of 8.
func (p *Plan) Put(staging []byte, i int) {
	s, spec := &p.samples[i], p.tensor.Spec
	t := s.Job.Transform
	h, w := t.Size()
	out := sample{
		slot: uint64(int64(s.Slot) * spec.SampleBytes()), height: int32(h), width: int32(w),
		rows: int32(s.y.Size), columns: int32(s.x.Size), tapsY: int32(s.y.Taps), tapsX: int32(s.x.Taps),
		shiftY: int32(s.y.Shift), shiftX: int32(s.x.Shift), decoded: flag(s.decoded), flip: flag(t.Flip), copies: flag(t.Copies()),
		atY: uint64(s.atY), weightsY: uint64(s.weightsY), atX: uint64(s.atX), weightsX: uint64(s.weightsX),
	}
	if !t.Copies() {
		s.y.Fill(view[int32](staging, s.atY, h), view[int16](staging, s.weightsY, h*s.y.Taps))
		s.x.Fill(view[int32](staging, s.atX, w), view[int16](staging, s.weightsX, w*s.x.Taps))
	}
	first, dx, dy := s.pix, spec.C, s.Job.Width*spec.C
	switch {
	case s.NVJPEG:
		first, dx, dy = s.Job.StepsInStored()
		first += s.work
		copy(staging[p.Staging+s.file:], s.Data)
	case s.decoded:
		s.packed.Put(staging[s.pix:][:s.packed.Bytes], s.Data)
		first, dx, dy = s.Job.Steps()
		first += s.work + int(s.packed.Pixels)
	}
	out.pix, out.dx, out.dy, out.dc = uint64(first+s.y.First*dy+s.x.First*dx), int64(dx), int64(dy), 1
	put(staging, p.in.samples+i*sampleBytes, out)
}

// Finish writes what the kernels need to know about the whole batch. The addresses on the device,
// which are multiples of 128, belong to the copy of the staging buffer, to Work, and to the
// tensor's first element.
func (p *Plan) Finish(buffer []byte, staging, work, tensor uint64) {
	s := p.tensor.Spec
	put(buffer, 0, batch{
		staging: staging, work: work, slots: tensor,
		samples: uint64(p.in.samples), encoded: uint64(p.in.encoded), elements: uint64(p.in.elements),
		count: int32(len(p.samples)), jpegs: int32(len(p.jpegs)), slotHeight: int32(s.H), slotWidth: int32(s.W),
		channels: int32(s.C), size: int32(s.DType.Size()), planar: flag(s.Order == layout.NCHW),
		tile: int32(p.tile), fill: int32(p.tensor.Fill),
	})
	for k, i := range p.jpegs {
		put(buffer, p.in.encoded+k*encodedBytes, encoded{uint64(p.samples[i].pix), uint64(p.samples[i].work)})
	}
	for c := range s.C {
		elements := p.tensor.Converter.Elements(c)
		put(buffer, p.in.elements+c*4*256, elements[:]...)
	}
}

// forNVJPEG returns the images that nvJPEG decodes from host's memory; Work is at the address work.
func (p *Plan) forNVJPEG(host []byte, work uint64) []Image {
	images := make([]Image, len(p.images))
	for k, i := range p.images {
		s := &p.samples[i]
		height, width := s.Job.Stored()
		images[k] = Image{Data: host[p.Staging+s.file:][:len(s.Data)], To: cuda.Pointer(work + uint64(s.work)), Pitch: width * p.tensor.Spec.C, Rows: height}
	}
	return images
}

// verdictBytes is how many bytes at the beginning of Work left needs.
func (p *Plan) verdictBytes() int { return 4 * len(p.jpegs) }

// left returns the samples that the GPU could not or would not decode: the processor must.
func (p *Plan) left(verdicts []byte, images []Image) (left []int) {
	for k, image := range images {
		if image.Refused {
			left = append(left, p.images[k])
		}
	}
	for k, v := range view[uint32](verdicts, 0, len(p.jpegs)) {
		if v != 0 {
			left = append(left, p.jpegs[k])
		}
	}
	return left
}
