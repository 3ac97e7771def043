package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"
)

const batchSize = 32

// A way is one way to read an epoch of a dataset, with its goal.
type way struct {
	what   string
	wanted float64 // as a multiple of C
	flags  []string
	form   string
	read   reader
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
		{"JPEG in its own size: one epoch, mapped / C", 0.90, none, "nhwc", mapped},
		{"JPEG in its own size: one epoch, by read / C", 0.80, none, "nhwc", reading(0, true)},
	})
}

// transforms reads crops, as training and evaluation do.
func transforms(ctx context.Context, s *setup) ([]row, error) {
	crop := shuffled(batchSize, trainingCrop...)
	half := append(shuffled(batchSize, trainingCrop...), "--dtype", "float16", "--layout", "nchw", "--normalize", "imagenet")
	return s.throughput(ctx, &s.photos, []way{
		{"JPEG, random-resized-crop 224, flip, uint8 NHWC: one epoch / C", 1.0, crop, "nhwc", mapped},
		{"    as float16 NCHW, normalised / C", 0.95, half, "nchw", mapped},
		{"JPEG, not-smaller 224: one epoch / C", 0.85, shuffled(batchSize, "--resize", "not-smaller", "--size", "224x224"), "nhwc", mapped},
	})
}

// cityscapeEpochs reads large PNG files, in batches of the usual number of bytes.
func cityscapeEpochs(ctx context.Context, s *setup) ([]row, error) {
	return s.throughput(ctx, &s.cityscapes, []way{
		{"PNG 2048x1024 in its own size: one epoch, mapped / C", 2.3, shuffled(8, "--resize", "none"), "nhwc", mapped},
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
	defer m.unmount(s)
	training, err := newTraining(m, w.form, w.read)
	if err != nil {
		return row{}, err
	}
	if _, err := training.epoch(); err != nil { // warms up memory
		return row{}, err
	}
	c, err := s.runCeiling(ctx, runtime.NumCPU(), d.files)
	if err != nil {
		return row{}, err
	}
	var ratios, rates []float64
	ceilings := []float64{c}
	for i := range s.rounds {
		s.progress.step(w.what, i, s.rounds)
		rate, err := training.epoch()
		if err != nil {
			return row{}, err
		}
		after, err := s.runCeiling(ctx, runtime.NumCPU(), d.files)
		if err != nil {
			return row{}, err
		}
		ratios = append(ratios, rate/((ceilings[i]+after)/2))
		rates, ceilings = append(rates, rate), append(ceilings, after)
	}
	return row{What: w.what, Unit: "C", figure: figureOf(ratios),
		Note: fmt.Sprintf("%.0f images/s, C %.0f", figureOf(rates).Value, figureOf(ceilings).Value)}.atLeast(w.wanted), nil
}

// A training reads batch after batch, epoch after epoch, like a training program.
type training struct {
	m       *mounted
	form    string
	read    reader
	batches int // per epoch
	samples int
	next    int // batch number, counted across epochs
}

func newTraining(m *mounted, form string, read reader) (*training, error) {
	batches, samples, err := m.epochSize()
	if err == nil && batches == 0 {
		err = fmt.Errorf("the mount has no batches")
	}
	return &training{m: m, form: form, read: read, batches: batches, samples: samples}, err
}

// ahead is a lower bound on the batches that a daemon makes while nothing reads.
const ahead = 4

// epoch reads the number of batches of one epoch during training and returns images per
// second. Batches made while nothing read are read before the clock starts, so that equally
// many are in progress when it starts and when it stops. The daemon is paused before and
// after.
func (t *training) epoch() (float64, error) {
	t.m.resume()
	defer t.m.pause()
	if err := t.take(ahead); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := t.take(t.batches); err != nil {
		return 0, err
	}
	return float64(t.samples) / time.Since(began).Seconds(), nil
}

func (t *training) take(n int) error {
	for range n {
		if _, err := t.read.path(t.m.batch(0, t.next/t.batches, t.next%t.batches, t.form)); err != nil {
			return err
		}
		t.next++
	}
	return nil
}

// firstBatch compares the time of the first batch after a mount with decoding the same
// files on all cores.
func firstBatch(ctx context.Context, s *setup) ([]row, error) {
	if err := s.need(ctx, &s.photos); err != nil {
		return nil, err
	}
	files := s.photos.files[:min(batchSize, s.photos.images)] // the first batch, since the order is not shuffled
	var ratios, times []float64
	for i := range 3 * s.rounds {
		s.progress.step("first batch", i, 3*s.rounds)
		took, err := s.openFirst(ctx)
		if err != nil {
			return nil, err
		}
		rate, err := s.runCeiling(ctx, runtime.NumCPU(), files) // once, also in a new process
		if err != nil {
			return nil, err
		}
		ratios, times = append(ratios, took/(float64(len(files))/rate)), append(times, took)
	}
	return []row{row{What: "open of the first batch after mount / decoding it on all cores", Unit: "x", figure: figureOf(ratios),
		Note: fmt.Sprintf("%.1f ms", figureOf(times).Value*1e3)}.atMost(1.5)}, nil
}

// openFirst mounts and returns the time to open the first batch, in seconds.
func (s *setup) openFirst(ctx context.Context) (float64, error) {
	m, err := s.mount(ctx, s.photos.dir, "--batch-size", strconv.Itoa(batchSize))
	if err != nil {
		return 0, err
	}
	began := time.Now()
	f, err := os.Open(m.batch(0, 0, 0, "nhwc")) // returns when the batch is complete
	took := time.Since(began).Seconds()
	if err == nil {
		f.Close()
	}
	if busy := m.unmount(s); err == nil {
		err = busy
	}
	return took, err
}
