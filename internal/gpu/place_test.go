package gpu

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/internal/testkit"
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

// A format is a tensor's type and order of axes.
type format struct {
	dtype layout.DType
	order layout.Order
}

func randomFormat(r *rand.Rand) format {
	return format{layout.DType(r.IntN(4)), layout.Order(r.IntN(2))}
}

// tensor is one for n samples of up to h x w pixels.
func (f format) tensor(t testing.TB, r *rand.Rand, n, h, w, channels int) Tensor {
	norm := layout.Normalization{}
	if f.dtype != layout.Uint8 {
		norm = layout.Normalization{Mean: []float64{123.675, 116.28, 103.53}[:channels], Std: []float64{58.395, 57.12, 57.375}[:channels]}
	}
	converter, err := layout.NewConverter(f.dtype, channels, norm)
	testkit.Must(t, err)
	spec, err := layout.NewSpec(n, h+r.IntN(3), w+r.IntN(3), channels, f.dtype, f.order)
	testkit.Must(t, err)
	return Tensor{Spec: spec, Converter: converter, Fill: uint8(r.Uint32())}
}

func randomOptions(r *rand.Rand, mode resample.Mode, most int) resample.Options {
	return resample.Options{
		Mode: mode, Height: 1 + r.IntN(most), Width: 1 + r.IntN(most), Flip: .5, Seed: r.Uint64(),
		CropArea: [2]float64{0.08, 1}, CropRatio: resample.DefaultCropRatio,
	}
}

func randomMode(r *rand.Rand) resample.Mode { return modes[r.IntN(len(modes))] }

// covered counts cases; a test must meet each of them.
type covered map[[5]int]int

func (c covered) all(t *testing.T, of int) {
	t.Helper()
	if len(c) != of {
		t.Errorf("%d of %d cases were met", len(c), of)
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

// ways is in how many ways pixels can be stored: turned, and each of these in planes.
const ways = 16

// turn stores the upright pixels of sample i in one of the ways.
func turn(p *Plan, staging []byte, i, way int) {
	s, c := &p.samples[i], p.tensor.Spec.C
	out := &view[sample](staging, p.in.samples+i*sampleBytes, 1)[0]
	upright := bytes.Clone(p.Pixels(staging, i).Pix)
	h, w := s.Job.Height, s.Job.Width
	sh, sw := h, w
	swap := way&1 != 0
	if swap {
		sh, sw = w, h
	}
	down, right, dc := sw*c, c, 1
	if way&2 != 0 {
		down, right, dc = sw, 1, sh*sw
	}
	first := 0
	if way&4 != 0 {
		first, down = first+(sh-1)*down, -down
	}
	if way&8 != 0 {
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

// A placement is a batch of pixels.
type placement struct {
	*Plan
	staging []byte
	widths  []int // of the sources
	from    pixels.Options
}

// placeBatch makes a batch of n random images, in different ways. The last one may end where the
// staging buffer does, so that the sanitizer finds reads beyond it.
func placeBatch(t testing.TB, r *rand.Rand, n, channels int, mode resample.Mode, f format) *placement {
	b := &placement{}
	o := randomOptions(r, mode, 40)
	if channels == 1 {
		b.from.Color = decode.Gray
	}
	var samples []Sample
	most := []int{6, 20, 40, 90}[r.IntN(4)]
	H, W := 1, 1
	for i := range n {
		h, w := 1+r.IntN(most), 1+r.IntN(most)
		if mode != resample.None && r.IntN(32) == 0 {
			h, w = 1+r.IntN(300), 1+r.IntN(300)
		}
		if i == n-1 && r.IntN(2) == 0 {
			h, w = alignment, 1
			if r.IntN(2) == 0 {
				h, w = w, h
			}
		}
		tr := o.Choose(r.IntN(5), int64(r.IntN(1000)), h, w)
		if _, _, ok := tr.Filters(); !ok { // reduced too much
			h, w = 1+r.IntN(most), 1+r.IntN(most)
			tr = o.Choose(1, 1, h, w)
		}
		job := b.from.Plan(decode.Header{Format: decode.PNG, Width: w, Height: h, Orientation: 1}, tr, pixels.Target{})
		samples, b.widths = append(samples, Sample{Slot: n - 1 - i, Job: job, Data: picture(r, h, w, channels)}), append(b.widths, w)
		oh, ow := tr.Size()
		H, W = max(H, oh), max(W, ow)
	}
	p, err := NewPlan(f.tensor(t, r, n, H, W, channels), samples)
	testkit.Must(t, err)
	p.grid = []int{1, 2, mostGrid}[r.IntN(3)]
	if p.tile = min(p.tile, 1<<r.IntN(7)); p.shared(p.tile) > mostShared {
		t.Fatalf("%d bytes of shared memory", p.shared(p.tile))
	}
	b.Plan, b.staging = p, make([]byte, p.Staging)
	first := r.IntN(ways)
	for i, s := range samples {
		testkit.Must(t, b.source(i).DecodeRegion(p.Pixels(b.staging, i), s.Data, decode.Header{}, s.Job.Region, 1))
		p.Put(b.staging, i)
		turn(p, b.staging, i, (first+i)%ways)
	}
	p.Finish(b.staging, 0, 0, 0)
	return b
}

func (b *placement) source(i int) pictures { return pictures{b.widths[i], b.tensor.Spec.C} }

// want is what the batch must become.
func (b *placement) want(t testing.TB) []byte {
	want := make([]byte, b.tensor.Spec.Bytes())
	writer := layout.NewWriter(b.tensor.Converter, 0)
	defer writer.Close()
	size := int(b.tensor.Spec.SampleBytes())
	for i := range b.samples {
		s := &b.samples[i]
		job := func(to pixels.Target) pixels.Job {
			h := decode.Header{Format: decode.PNG, Width: b.widths[i], Height: len(s.Data) / b.tensor.Spec.C / b.widths[i], Orientation: 1}
			return b.from.Plan(h, s.Job.Transform.Moved(-s.Job.Region.Y, -s.Job.Region.X), to)
		}
		testkit.Must(t, onProcessor(t, writer, b.tensor, want[s.Slot*size:][:size], job, b.source(i), s.Data))
	}
	return want
}

// TestPlace: the kernel's bytes are those of resample.Resize and a layout.Writer, for every mode,
// type, order, number of channels and way of storing pixels.
func TestPlace(t *testing.T) {
	t.Parallel()
	hosts, threads := startAll(t)
	r, cases, images, total, inThreads := rand.New(rand.NewPCG(1, 7)), covered{}, 0, 0, 0
	each := 2
	if testing.Short() {
		each = 1
	}
	for i := range each * len(modes) * 4 * 2 * 2 {
		c, by := i/each, hosts
		mode, f, channels := c%len(modes), format{layout.DType(c / len(modes) % 4), layout.Order(c / len(modes) / 4 % 2)}, 1+c/len(modes)/8*2
		if i%16 == 0 {
			by, inThreads = append(by, threads), inThreads+ways
		}
		b := placeBatch(t, r, ways, channels, modes[mode], f)
		wait, want := runAll(by, b.Plan, b.staging), b.want(t)
		for _, made := range wait() {
			if made.err != nil || !bytes.Equal(made.slots, want) {
				t.Fatalf("batch %d, %s: %d of %d bytes differ (%v): %+v, tile %d, %+v", i, made.by.name, different(made.slots, want), len(want), made.err, b.tensor.Spec, b.tile, b.samples)
			}
		}
		for way := range ways {
			cases[[5]int{mode, int(f.dtype), int(f.order), channels, way}]++
		}
		images, total = images+ways, total+len(want)
	}
	cases.all(t, len(modes)*4*2*2*ways)
	t.Logf("%d images, %d bytes, as source and as PTX; %d of them in several threads; %d cases", images, total, inThreads, len(cases))
}

func different(a, b []byte) (n int) {
	for i := range a {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}
