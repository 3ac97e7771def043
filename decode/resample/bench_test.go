package resample_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
)

// Typical training options for photos of 500x375.
var benchOptions = []resample.Options{
	{Mode: resample.Stretch, Height: 224, Width: 224},
	{Mode: resample.NotSmaller, Height: 224, Width: 224},
	{Mode: resample.RandomResizedCrop, Height: 224, Width: 224, CropArea: resample.DefaultCropArea, CropRatio: resample.DefaultCropRatio},
}

// work is one decoded photo, and everything needed to resize it.
type work struct {
	picture *picture
	pixels  resample.Image
	sink    resample.Sink
	scratch []byte
	sample  int64
}

func newWork(b *testing.B) *work {
	w := &work{picture: newPicture(b, photos(b, 1)[0]), sink: new(discard), scratch: make([]byte, 1<<20)}
	w.pixels = resample.Image{Pix: make([]byte, 500*375*3), Stride: 1500, Height: 375, Width: 500, Channels: 3}
	w.decode(b)
	if resample.InC {
		w.sink = resample.NewSinkInC(b, 224, 224*3)
	}
	return w
}

type discard struct{}

func (*discard) PutRow(int, []byte) {}

func (w *work) decode(b *testing.B) {
	dst := decode.Image{Pix: w.pixels.Pix, Stride: w.pixels.Stride, Height: w.pixels.Height, Width: w.pixels.Width}
	if err := w.picture.decoder.Decode(dst, w.picture.data, w.picture.header); err != nil {
		b.Fatal(err)
	}
}

func (w *work) resize(b *testing.B, o resample.Options, k resample.Kernel) {
	w.sample++
	t := o.Choose(0, w.sample, w.pixels.Height, w.pixels.Width)
	if err := resample.Resize(w.sink, w.pixels, t, w.scratch, k); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkResize resizes one image, from the choice to the last row, with every kernel.
func BenchmarkResize(b *testing.B) {
	for _, o := range benchOptions {
		for _, k := range resample.Kernels() {
			b.Run(fmt.Sprintf("%v/%v", o.Mode, k), func(b *testing.B) {
				w := newWork(b)
				b.ReportAllocs()
				for b.Loop() {
					w.resize(b, o, k)
				}
			})
		}
	}
}

// BenchmarkResizeAgainstDecode alternates with the decoder, and reports how many times faster
// resizing is than decoding the photo in full. For each it uses the slowest of the fastest
// tenth.
func BenchmarkResizeAgainstDecode(b *testing.B) {
	for _, o := range benchOptions {
		for _, k := range resample.Kernels() {
			b.Run(fmt.Sprintf("%v/%v", o.Mode, k), func(b *testing.B) {
				w := newWork(b)
				var decodes, resizes []time.Duration
				for b.Loop() {
					start := time.Now()
					w.decode(b)
					between := time.Now()
					w.resize(b, o, k)
					decodes, resizes = append(decodes, between.Sub(start)), append(resizes, time.Since(between))
				}
				decode, resize := float64(tenth(decodes)), float64(tenth(resizes))
				b.ReportMetric(decode/resize, "x-decode")
				b.ReportMetric(resize/1e3, "us/resize")
				b.ReportMetric(decode/1e3, "us/decode")
			})
		}
	}
}

func tenth(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/10]
}
