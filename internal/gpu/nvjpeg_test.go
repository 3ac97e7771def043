package gpu_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/fakegpu"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// inexact is a source of nvJPEG's pixels in tests.
type inexact struct{ *decode.Decoder }

func (d inexact) DecodeRegion(dst decode.Image, data []byte, h decode.Header, r decode.Region, scale int) error {
	err := d.Decoder.DecodeRegion(dst, data, h, r, scale)
	for y := range dst.Height {
		for i := range dst.Pix[y*dst.Stride : (y+1)*dst.Stride] {
			dst.Pix[y*dst.Stride+i] ^= 1
		}
	}
	return err
}

// TestNVJPEG: batches show the pixels of images that nvJPEG decodes, in all orientations; images
// that it refuses are left.
func TestNVJPEG(t *testing.T) {
	if !fakegpu.Kernels {
		t.Skip("SKIPPED: the GPU's kernels need cgo here")
	}
	files := testkit.Pictures(t, "oriented/*.jpg", "samples/y*.jpg", "samples/gray*.jpg")
	files = slices.DeleteFunc(files, func(data []byte) bool { return !decode.Ordinary(data) })
	bad := slices.Clone(files[0])
	copy(bad[len(bad)-12:], []byte{0xff, 0xd9})
	files = append(files, bad)
	r := rand.New(rand.NewPCG(4, 4))
	for range 30 {
		makeByNVJPEG(t, r, files)
	}
}

func makeByNVJPEG(t *testing.T, r *rand.Rand, files [][]byte) {
	t.Helper()
	o := pixels.Options{FullJPEGs: true}
	o.Color, o.IgnoreOrientation = decode.Color(r.IntN(2)), r.IntN(2) == 0
	size := resample.Options{
		Mode: []resample.Mode{resample.Stretch, resample.NotLarger, resample.NotSmaller, resample.RandomResizedCrop}[r.IntN(4)],
		Flip: 0.5, Height: 1 + r.IntN(50), Width: 1 + r.IntN(50), CropArea: resample.DefaultCropArea, CropRatio: resample.DefaultCropRatio,
	}
	converter, err := layout.NewConverter(layout.Uint8, o.Color.Channels(), layout.Normalization{})
	testkit.Must(t, err)
	spec, err := layout.NewSpec(8, size.Height, size.Width, o.Color.Channels(), layout.Uint8, layout.NHWC)
	testkit.Must(t, err)
	decoder, writer := decode.NewDecoder(o.Options), layout.NewWriter(converter, 0)
	defer decoder.Close()
	defer writer.Close()
	var samples []gpu.Sample
	var wants [][]byte // nil: refused
	for i := range spec.N {
		data := slices.Clone(files[r.IntN(len(files))])
		head, err := decode.ReadHeader(data, true)
		testkit.Must(t, err)
		height, width := head.Size(o.IgnoreOrientation)
		transform := size.Choose(0, int64(r.Uint32()), height, width)
		want := make([]byte, spec.SampleBytes())
		plan := o.Plan(head, transform, pixels.Target{Sink: writer})
		tall, wide := transform.Size()
		writer.Begin(want, spec, tall, wide, transform.Flip, 3)
		if plan.Run(inexact{decoder}, data, make([]byte, plan.Memory)) != nil {
			want = nil
		}
		writer.End()
		wants = append(wants, want)
		samples = append(samples, gpu.Sample{Slot: i, Job: o.Plan(head, transform, pixels.Target{}), Data: data, NVJPEG: true})
	}
	d := gpu.New(&fakegpu.GPU{Memory: 1 << 30}, gpu.Options{})
	defer d.Close()
	if _, err := d.OpenNVJPEG(o.Color == decode.Gray); err != nil {
		t.Fatal(err)
	}
	p, err := gpu.NewPlan(gpu.Tensor{Spec: spec, Converter: converter, Fill: 3}, samples)
	testkit.Must(t, err)
	host := make([]byte, p.Host())
	for i, s := range samples {
		p.Put(host, i)
		clear(s.Data) // the reader has it for the next one
	}
	tensor, left, err := d.Make(p, host)
	testkit.Must(t, err)
	for i, want := range wants {
		if slices.Contains(left, i) != (want == nil) {
			t.Fatalf("sample %d is left: %t", i, want != nil)
		}
		if want != nil && !bytes.Equal(tensor[i*len(want):][:len(want)], want) {
			t.Fatalf("sample %d: %+v, orientation ignored: %t: other pixels", i, size, o.IgnoreOrientation)
		}
	}
}
