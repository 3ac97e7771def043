package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/throughput"
)

// A way is one way to read an epoch of a dataset, with its goal.
type way struct {
	what   string
	wanted float64 // as a multiple of C
	flags  []string
	read   throughput.Reader
}

// without makes a mount neither use nor make entry points. Others have made them in the epoch that
// warms up.
func without(flags []string) []string { return append(slices.Clone(flags), "--entry-points", "off") }

// epochs reads images at their own size.
func epochs(ctx context.Context, s *setup) ([]row, error) {
	none := shuffled(batchSize, "--resize", "none")
	return s.throughput(ctx, &s.photos, []way{
		{"JPEG in its own size: one epoch, mapped / C", 1.7, none, throughput.Mapped},
		{"    without entry points / C", 1.7, without(none), throughput.Mapped},
		{"JPEG in its own size: one epoch, by read / C", 1.5, none, throughput.Reading(0, true)},
		{"    without entry points / C", 1.5, without(none), throughput.Reading(0, true)},
	})
}

// transforms reads crops, as training and evaluation do.
func transforms(ctx context.Context, s *setup) ([]row, error) {
	crop := shuffled(batchSize, trainingCrop...)
	half := append(shuffled(batchSize, trainingCrop...), "--dtype", "float16", "--layout", "nchw", "--normalize", "imagenet")
	whole := shuffled(batchSize, "--resize", "not-smaller", "--size", "224x224")
	return s.throughput(ctx, &s.photos, []way{
		{"JPEG, random-resized-crop 224, flip, uint8 NHWC: one epoch / C", 2.8, crop, throughput.Mapped},
		{"    without entry points / C", 2.2, without(crop), throughput.Mapped},
		{"    as float16 NCHW, normalised / C", 2.5, half, throughput.Mapped},
		{"    as float16 NCHW, without entry points / C", 2.0, without(half), throughput.Mapped},
		{"JPEG, not-smaller 224: one epoch / C", 1.6, whole, throughput.Mapped},
		{"    without entry points / C", 1.6, without(whole), throughput.Mapped},
	})
}

// cityscapeEpochs reads large PNG files, in batches of the usual number of bytes.
func cityscapeEpochs(ctx context.Context, s *setup) ([]row, error) {
	return s.throughput(ctx, &s.cityscapes, []way{
		{"PNG 2048x1024 in its own size: one epoch, mapped / C", 2.3, shuffled(8, "--resize", "none"), throughput.Mapped},
	})
}

func (s *setup) throughput(ctx context.Context, d *imageSet, ways []way) (rows []row, err error) {
	for _, w := range ways {
		r, err := s.epochsOf(ctx, d, w)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", w.what, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// epochsOf compares epochs with C, which takes two turns in each round.
func (s *setup) epochsOf(ctx context.Context, d *imageSet, w way) (row, error) {
	training, err := s.train(ctx, d.Root(), warm(w.flags...), w.read)
	if err != nil {
		return row{}, err
	}
	defer training.Mount.Unmount(ctx)
	c := s.c(runtime.NumCPU(), d.files)
	rates, err := s.turns(ctx, w.what, s.rounds, c, training.Epoch, c)
	if err != nil {
		return row{}, err
	}
	ceilings := rates[0]
	for i, again := range rates[2] {
		ceilings[i] = (ceilings[i] + again) / 2
	}
	note := fmt.Sprintf("%.0f images/s, C %.0f", median(rates[1]), median(ceilings))
	return measured(w.what, "C", ratios(rates[1], ceilings), note).atLeast(w.wanted), nil
}

// firstBatch compares the time of the first batch after a mount with decoding the same
// files on all cores.
func firstBatch(ctx context.Context, s *setup) ([]row, error) {
	files := s.photos.files[:min(batchSize, s.photos.images)] // the first batch, since the order is not shuffled
	opened := func(ctx context.Context) (float64, error) {
		flags := warm("--batch-size", strconv.Itoa(batchSize))
		return mounted(ctx, s, s.photos.Root(), flags, func(m *daemon.Mount) (float64, error) { return timeOpen(m, 0) })
	}
	decoded := func(ctx context.Context) (float64, error) {
		rate, err := s.c(runtime.NumCPU(), files)(ctx) // once, also in a new process
		return float64(len(files)) / rate, err
	}
	figures, err := s.turns(ctx, "first batch", 3*s.rounds, opened, decoded)
	if err != nil {
		return nil, err
	}
	note := fmt.Sprintf("%.1f ms", 1e3*median(figures[0]))
	return []row{measured("open of the first batch after mount / decoding it on all cores", "x", ratios(figures[0], figures[1]), note).atMost(1.5)}, nil
}

// timeOpen times the open of the first batch of an epoch, in seconds: it returns when the
// batch is complete.
func timeOpen(m *daemon.Mount, epoch int) (float64, error) {
	began := time.Now()
	f, err := os.Open(m.Batch(0, epoch, 0))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return time.Since(began).Seconds(), nil
}
