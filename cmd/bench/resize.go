package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/layout"
)

// resizeAlone resizes decoded photos to 224x224 on one core, into their place in a batch,
// and compares the speed with that of decoding them on the same core.
func resizeAlone(ctx context.Context, s *setup) ([]row, error) {
	cpus, err := cores()
	if err != nil {
		return nil, err
	}
	files := s.photos.files[:min(512, s.photos.images)]
	r, err := newResizer(files[:min(16, len(files))])
	if err != nil {
		return nil, err
	}
	// One goroutine: what runs on one CPU only is this thread and the processes it starts.
	rates, err := s.turns(ctx, "resize", 3*s.rounds,
		func(context.Context) (rate float64, err error) {
			err = onCPUs(cpus[:1], func() error { rate, err = r.measure(2000); return err })
			return rate, err
		},
		func(ctx context.Context) (rate float64, err error) {
			err = onCPUs(cpus[:1], func() error { rate, err = s.runCeiling(ctx, 1, files); return err })
			return rate, err
		})
	if err != nil {
		return nil, err
	}
	note := fmt.Sprintf("%.0f images/s, decoding %.0f, %s", median(rates[0]), median(rates[1]), resample.Fastest)
	return []row{measured("resize of photos to 224x224 / decoding them, one core", "x", ratios(rates[0], rates[1]), note).atLeast(3.5)}, nil
}

// A resizer does one worker's part of making batches of crops, without the decoding.
type resizer struct {
	images     []resample.Image
	transforms []resample.Transform
	scratch    []byte
	writer     *layout.Writer
	spec       layout.Spec
	batch      []byte
}

func newResizer(files []string) (*resizer, error) {
	const size = 224
	spec, err := layout.NewSpec(batchSize, size, size, 3, layout.Uint8, layout.NHWC)
	if err != nil {
		return nil, err
	}
	r := &resizer{spec: spec}
	r.batch = make([]byte, batchSize*size*size*3)
	converter, err := layout.NewConverter(layout.Uint8, 3, layout.Normalization{})
	if err != nil {
		return nil, err
	}
	r.writer = layout.NewWriter(converter, 0)
	options := resample.Options{Mode: resample.Stretch, Height: size, Width: size}
	for i, path := range files {
		img, err := readPixels(path)
		if err != nil {
			return nil, err
		}
		t := options.Choose(0, int64(i), img.Height, img.Width)
		r.images, r.transforms = append(r.images, img), append(r.transforms, t)
		if n := resample.ScratchBytes(t, 3); n > len(r.scratch) {
			r.scratch = make([]byte, n)
		}
	}
	return r, nil
}

// measure resizes n images and returns images per second.
func (r *resizer) measure(n int) (float64, error) {
	sample := len(r.batch) / batchSize
	began := time.Now()
	for i := range n {
		r.writer.Begin(r.batch[i%batchSize*sample:][:sample], r.spec, r.spec.H, r.spec.W, i%2 == 1, 0)
		at := i % len(r.images)
		if err := resample.Resize(r.writer, r.images[at], r.transforms[at], r.scratch, resample.Fastest); err != nil {
			return 0, err
		}
		r.writer.End()
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

// readPixels decodes a file, outside the measurement.
func readPixels(path string) (resample.Image, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return resample.Image{}, err
	}
	head, err := decode.ReadHeader(data, true)
	if err != nil {
		return resample.Image{}, fmt.Errorf("%s: %w", path, err)
	}
	decoder := decode.NewDecoder(decode.Options{MaxPixels: maxPixels})
	defer decoder.Close()
	height, width := head.Size(false)
	img := decode.Image{Pix: make([]byte, height*width*3), Stride: width * 3, Height: height, Width: width}
	err = decoder.Decode(img, data, head)
	return resample.Image{Pix: img.Pix, Stride: img.Stride, Height: height, Width: width, Channels: 3}, err
}
