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

const batchSize = 32

// A way is one way to read an epoch of a dataset, with its goal.
type way struct {
	what   string
	wanted float64 // as a multiple of C
	flags  []string
	read   throughput.Reader
}

// shuffled are the flags of every mount whose throughput is measured.
func shuffled(batch int, more ...string) []string {
	return append([]string{"--shuffle", "--batch-size", strconv.Itoa(batch)}, more...)
}

// trainingCrop is the transform most classifiers are trained with.
var trainingCrop = []string{"--resize", "random-resized-crop", "--size", "224x224", "--flip", "0.5"}

// epochs reads images at their own size.
func epochs(ctx context.Context, s *setup) ([]row, error) {
	none := shuffled(batchSize, "--resize", "none")
	return s.throughput(ctx, &s.photos, []way{
		{"JPEG in its own size: one epoch, mapped / C", 0.90, none, throughput.Mapped},
		{"JPEG in its own size: one epoch, by read / C", 0.80, none, throughput.Reading(0, true)},
	})
}

// transforms reads crops, as training and evaluation do.
func transforms(ctx context.Context, s *setup) ([]row, error) {
	crop := shuffled(batchSize, trainingCrop...)
	half := append(shuffled(batchSize, trainingCrop...), "--dtype", "float16", "--layout", "nchw", "--normalize", "imagenet")
	return s.throughput(ctx, &s.photos, []way{
		{"JPEG, random-resized-crop 224, flip, uint8 NHWC: one epoch / C", 1.0, crop, throughput.Mapped},
		{"    as float16 NCHW, normalised / C", 0.95, half, throughput.Mapped},
		{"JPEG, not-smaller 224: one epoch / C", 0.85, shuffled(batchSize, "--resize", "not-smaller", "--size", "224x224"), throughput.Mapped},
	})
}

// cityscapeEpochs reads large PNG files, in batches of the usual number of bytes.
func cityscapeEpochs(ctx context.Context, s *setup) ([]row, error) {
	return s.throughput(ctx, &s.cityscapes, []way{
		{"PNG 2048x1024 in its own size: one epoch, mapped / C", 2.3, shuffled(8, "--resize", "none"), throughput.Mapped},
	})
}

func (s *setup) throughput(ctx context.Context, d *imageSet, ways []way) (rows []row, err error) {
	if err := s.need(ctx, d); err != nil {
		return nil, err
	}
	for _, w := range ways {
		r, err := s.epochsOf(ctx, d, w)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", w.what, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// epochsOf compares epochs with runs of C before and after each.
func (s *setup) epochsOf(ctx context.Context, d *imageSet, w way) (row, error) {
	m, err := s.mount(ctx, d.dir, w.flags...)
	if err != nil {
		return row{}, err
	}
	defer m.Unmount(s.batchfs)
	training, err := newTraining(m, w.read)
	if err != nil {
		return row{}, err
	}
	if _, err := training.Epoch(ctx); err != nil { // warms up memory
		return row{}, err
	}
	c, err := s.runCeiling(ctx, runtime.NumCPU(), d.files)
	if err != nil {
		return row{}, err
	}
	var rates, around []float64
	ceilings := []float64{c}
	for i := range s.rounds {
		s.progress.step(w.what, i, s.rounds)
		rate, err := training.Epoch(ctx)
		if err != nil {
			return row{}, err
		}
		after, err := s.runCeiling(ctx, runtime.NumCPU(), d.files)
		if err != nil {
			return row{}, err
		}
		rates, around, ceilings = append(rates, rate), append(around, (ceilings[i]+after)/2), append(ceilings, after)
	}
	note := fmt.Sprintf("%.0f images/s, C %.0f", median(rates), median(ceilings))
	return measured(w.what, "C", ratios(rates, around), note).atLeast(w.wanted), nil
}

// newTraining reads shard 0 of a mount as .nhwc.
func newTraining(m *daemon.Mount, read throughput.Reader) (*throughput.Training, error) {
	return throughput.NewTraining(m, 0, "nhwc", read)
}

// firstBatch compares the time of the first batch after a mount with decoding the same
// files on all cores.
func firstBatch(ctx context.Context, s *setup) ([]row, error) {
	if err := s.need(ctx, &s.photos); err != nil {
		return nil, err
	}
	files := s.photos.files[:min(batchSize, s.photos.images)] // the first batch, since the order is not shuffled
	figures, err := s.turns(ctx, "first batch", 3*s.rounds, s.openFirst, func(ctx context.Context) (float64, error) {
		rate, err := s.runCeiling(ctx, runtime.NumCPU(), files) // once, also in a new process
		return float64(len(files)) / rate, err
	})
	if err != nil {
		return nil, err
	}
	note := fmt.Sprintf("%.1f ms", 1e3*median(figures[0]))
	return []row{measured("open of the first batch after mount / decoding it on all cores", "x", ratios(figures[0], figures[1]), note).atMost(1.5)}, nil
}

// openFirst mounts and returns the time to open the first batch, in seconds.
func (s *setup) openFirst(ctx context.Context) (took float64, err error) {
	err = s.mounted(ctx, s.photos.dir, slices.Concat(warm, []string{"--batch-size", strconv.Itoa(batchSize)}), func(m *daemon.Mount) error {
		took, err = timeOpen(m, 0)
		return err
	})
	return took, err
}

// timeOpen times the open of the first batch of an epoch, in seconds: it returns when the
// batch is complete.
func timeOpen(m *daemon.Mount, epoch int) (float64, error) {
	began := time.Now()
	f, err := os.Open(m.File(0, epoch, 0, "nhwc"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return time.Since(began).Seconds(), nil
}
