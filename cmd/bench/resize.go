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
	resize, err := resizing(files[:min(16, len(files))])
	if err != nil {
		return nil, err
	}
	// One goroutine: what runs on one CPU only is this thread and the processes it starts.
	rates, err := s.turns(ctx, "resize", 3*s.rounds, onCPUs(cpus[:1], resize), onCPUs(cpus[:1], s.c(1, files)))
	if err != nil {
		return nil, err
	}
	note := fmt.Sprintf("%.0f images/s, decoding %.0f, %s", median(rates[0]), median(rates[1]), resample.Fastest)
	return []row{measured("resize of photos to 224x224 / decoding them, one core", "x", ratios(rates[0], rates[1]), note).atLeast(3.5)}, nil
}

// resizing does one worker's part of making batches of crops, without the decoding. Its figures
// are images per second.
func resizing(files []string) (side, error) {
	const size, sample, images = 224, 224 * 224 * 3, 2000
	spec, err := layout.NewSpec(batchSize, size, size, 3, layout.Uint8, layout.NHWC)
	if err != nil {
		return nil, err
	}
	converter, err := layout.NewConverter(layout.Uint8, 3, layout.Normalization{})
	if err != nil {
		return nil, err
	}
	writer, batch, scratch := layout.NewWriter(converter, 0), make([]byte, batchSize*sample), []byte(nil)
	sources, transforms := make([]resample.Image, len(files)), make([]resample.Transform, len(files))
	options := resample.Options{Mode: resample.Stretch, Height: size, Width: size}
	for i, path := range files {
		if sources[i], err = readPixels(path); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		transforms[i] = options.Choose(0, int64(i), sources[i].Height, sources[i].Width)
		if n := resample.ScratchBytes(transforms[i], 3); n > len(scratch) {
			scratch = make([]byte, n)
		}
	}
	return func(context.Context) (float64, error) {
		began := time.Now()
		for i := range images {
			writer.Begin(batch[i%batchSize*sample:][:sample], spec, size, size, i%2 == 1, 0)
			at := i % len(files)
			if err := resample.Resize(writer, sources[at], transforms[at], scratch, resample.Fastest); err != nil {
				return 0, err
			}
			writer.End()
		}
		return images / time.Since(began).Seconds(), nil
	}, nil
}

// readPixels decodes a file, outside the measurement.
func readPixels(path string) (resample.Image, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return resample.Image{}, err
	}
	head, err := decode.ReadHeader(data, true)
	if err != nil {
		return resample.Image{}, err
	}
	decoder := decode.NewDecoder(decode.Options{MaxPixels: maxPixels})
	defer decoder.Close()
	height, width := head.Size(false)
	img := decode.Image{Pix: make([]byte, height*width*3), Stride: width * 3, Height: height, Width: width}
	err = decoder.Decode(img, data, head)
	return resample.Image{Pix: img.Pix, Stride: img.Stride, Height: height, Width: width, Channels: 3}, err
}
