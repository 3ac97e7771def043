package gpu

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/pixels"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/layout"
)

// pictures is a source of pixels that decodes nothing: the "file" is an upright image.
type pictures struct{ width, channels int }

func (p pictures) DecodeRegion(dst decode.Image, data []byte, _ decode.Header, r decode.Region, _ int) error {
	for y := range dst.Height {
		copy(dst.Pix[y*dst.Stride:][:dst.Width*p.channels], data[((r.Y+y)*p.width+r.X)*p.channels:])
	}
	return nil
}

// picture makes an upright image: noise, or noise of extremes, or a gradient.
func picture(r *rand.Rand, h, w, channels int) []byte {
	pix, kind := make([]byte, h*w*channels), r.IntN(3)
	for i := range pix {
		switch kind {
		case 0:
			pix[i] = byte(r.Uint32())
		case 1:
			pix[i] = byte(255 * r.IntN(2))
		default:
			pix[i] = byte(i * 7 / (1 + w))
		}
	}
	return pix
}

var modes = []resample.Mode{resample.None, resample.Stretch, resample.NotLarger, resample.NotSmaller, resample.RandomResizedCrop}

// randomTensor is one for n samples of up to h x w pixels.
func randomTensor(t testing.TB, r *rand.Rand, n, h, w, channels int) Tensor {
	dtype, norm := layout.DType(r.IntN(4)), layout.Normalization{}
	if dtype != layout.Uint8 {
		norm = layout.Normalization{Mean: []float64{123.675, 116.28, 103.53}[:channels], Std: []float64{58.395, 57.12, 57.375}[:channels]}
	}
	converter, err := layout.NewConverter(dtype, channels, norm)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := layout.NewSpec(n, h+r.IntN(3), w+r.IntN(3), channels, dtype, layout.Order(r.IntN(2)))
	if err != nil {
		t.Fatal(err)
	}
	return Tensor{Spec: spec, Converter: converter, Fill: uint8(r.Uint32())}
}

func randomOptions(r *rand.Rand, most int) resample.Options {
	return resample.Options{
		Mode: modes[r.IntN(len(modes))], Height: 1 + r.IntN(most), Width: 1 + r.IntN(most), Flip: .5, Seed: r.Uint64(),
		CropArea: [2]float64{0.08, 1}, CropRatio: resample.DefaultCropRatio,
	}
}

// onProcessor makes one sample with package pixels and a layout.Writer.
func onProcessor(t testing.TB, w *layout.Writer, tensor Tensor, slot []byte, job func(pixels.Target) pixels.Job, from pixels.Source, data []byte) error {
	t.Helper()
	plan := job(pixels.Target{Sink: w})
	h, width := plan.Transform.Size()
	w.Begin(slot, tensor.Spec, h, width, plan.Transform.Flip, tensor.Fill)
	defer w.End()
	return plan.Run(from, data, make([]byte, plan.Memory))
}

// turn stores the upright pixels of sample i in another way: turned, or in planes.
func turn(r *rand.Rand, p *Plan, staging []byte, i int) {
	s, c := &p.samples[i], p.tensor.Spec.C
	out := &view[sample](staging, p.in.samples+i*sampleBytes, 1)[0]
	upright := bytes.Clone(p.Pixels(staging, i).Pix)
	h, w := s.Job.Height, s.Job.Width
	sh, sw := h, w
	swap := r.IntN(2) == 1
	if swap {
		sh, sw = w, h
	}
	down, right, dc := sw*c, c, 1
	if r.IntN(2) == 1 {
		down, right, dc = sw, 1, sh*sw
	}
	first := 0
	if r.IntN(2) == 1 {
		first, down = first+(sh-1)*down, -down
	}
	if r.IntN(2) == 1 {
		first, right = first+(sw-1)*right, -right
	}
	dy, dx := down, right
	if swap {
		dy, dx = right, down
	}
	for y := range h {
		for x := range w {
			for k := range c {
				staging[s.pix+first+y*dy+x*dx+k*dc] = upright[(y*w+x)*c+k]
			}
		}
	}
	out.dy, out.dx, out.dc = int64(dy), int64(dx), int64(dc)
	out.pix = uint64(s.pix + first + s.y.First*dy + s.x.First*dx)
}

// placeBatch makes a random batch of pixels, and what it must become.
func placeBatch(t testing.TB, r *rand.Rand) (p *Plan, staging, want []byte) {
	channels, n := []int{1, 3}[r.IntN(2)], 1+r.IntN(4)
	o := randomOptions(r, 60)
	po := pixels.Options{}
	if channels == 1 {
		po.Color = decode.Gray
	}
	var samples []Sample
	var widths []int
	most := []int{6, 40, 90, 300}[r.IntN(4)]
	H, W := 1, 1
	for i := range n {
		h, w := 1+r.IntN(most), 1+r.IntN(most)
		tr := o.Choose(r.IntN(5), int64(r.IntN(1000)), h, w)
		if _, _, ok := tr.Filters(); !ok {
			tr = resample.Options{Flip: .5}.Choose(1, 1, h, w)
		}
		job := po.Plan(decode.Header{Format: decode.PNG, Width: w, Height: h, Orientation: 1}, tr, pixels.Target{})
		samples, widths = append(samples, Sample{Slot: n - 1 - i, Job: job, Data: picture(r, h, w, channels)}), append(widths, w)
		oh, ow := tr.Size()
		H, W = max(H, oh), max(W, ow)
	}
	tensor := randomTensor(t, r, n, H, W, channels)
	p, err := NewPlan(tensor, samples)
	if err != nil {
		t.Fatal(err)
	}
	p.grid = []int{1, 2, mostGrid}[r.IntN(3)]
	if p.tile = min(p.tile, 1<<r.IntN(7)); p.shared(p.tile) > mostShared {
		t.Fatalf("%d bytes of shared memory", p.shared(p.tile))
	}
	staging, want = make([]byte, p.Staging), make([]byte, tensor.Spec.Bytes())
	writer := layout.NewWriter(tensor.Converter, 0)
	defer writer.Close()
	size := int(tensor.Spec.SampleBytes())
	for i, s := range samples {
		from := pictures{widths[i], channels}
		if err := from.DecodeRegion(p.Pixels(staging, i), s.Data, decode.Header{}, s.Job.Region, 1); err != nil {
			t.Fatal(err)
		}
		p.Put(staging, i)
		turn(r, p, staging, i)
		job := func(to pixels.Target) pixels.Job {
			h := decode.Header{Format: decode.PNG, Width: widths[i], Height: len(s.Data) / channels / widths[i], Orientation: 1}
			again := po.Plan(h, s.Job.Transform.Moved(-s.Job.Region.Y, -s.Job.Region.X), to)
			return again
		}
		if err := onProcessor(t, writer, tensor, want[s.Slot*size:][:size], job, from, s.Data); err != nil {
			t.Fatal(err)
		}
	}
	p.Finish(staging, 0, 0, 0)
	return p, staging, want
}

// TestPlace: the kernel's bytes are those of resample.Resize and a layout.Writer.
func TestPlace(t *testing.T) {
	for _, c := range []struct {
		name    string
		program func(testing.TB) string
		batches int
	}{
		{"source", sanitized, 4200},
		{"ptx", func(t testing.TB) string { return compilePTX(t, PTX) }, 100},
		{"threads", threaded, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h, r, images, total := start(t, c.program(t)), rand.New(rand.NewPCG(1, 7)), 0, 0
			for i := range c.batches {
				p, staging, want := placeBatch(t, r)
				got, _, err := h.run(p, staging)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want) {
					t.Fatalf("batch %d: %d of %d bytes differ: %+v, tile %d, %+v", i, different(got, want), len(want), p.tensor.Spec, p.tile, p.samples)
				}
				images, total = images+len(p.samples), total+len(want)
			}
			t.Logf("%d images, %d bytes", images, total)
		})
	}
}

func different(a, b []byte) (n int) {
	for i := range a {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}
