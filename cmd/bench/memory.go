package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
)

// memoryByWorkers reads an epoch with increasing numbers of workers and reports the
// daemon's peak memory.
func memoryByWorkers(ctx context.Context, s *setup) ([]row, error) {
	if err := s.need(ctx, &s.photos); err != nil {
		return nil, err
	}
	var peaks []float64
	var note string
	var batchBytes int64
	counts := []int{1, 2, 8, 32}
	for i, workers := range counts {
		s.progress.step("an epoch with ever more workers", i, len(counts))
		peak, size, err := s.peakOf(ctx, workers)
		if err != nil {
			return nil, err
		}
		batchBytes = size
		peaks = append(peaks, peak)
		note += fmt.Sprintf(" %d: %.1f MiB;", workers, peak/(1<<20))
	}
	const depth, streams, open, spare = 2, 1, 1, 128 << 20
	bound := float64((depth*streams+open+streams)*batchBytes + spare)
	return []row{
		row{What: "peak memory with 1, 2, 8, 32 workers: most / least", Unit: "x", figure: exactly(slices.Max(peaks) / slices.Min(peaks)), Note: note[1:]}.atMost(1.10),
		row{What: "    most / (depth x streams + open + 1 per stream) x batch + 128 MiB", Unit: "x", figure: exactly(slices.Max(peaks) / bound)}.atMost(1),
	}, nil
}

// peakOf reads one epoch and returns the daemon's peak memory and the size of a batch.
func (s *setup) peakOf(ctx context.Context, workers int) (peak float64, batchBytes int64, err error) {
	m, err := s.mount(ctx, s.photos.dir, "--batch-size", strconv.Itoa(batchSize), "--workers", strconv.Itoa(workers))
	if err != nil {
		return 0, 0, err
	}
	defer m.unmount(s)
	training, err := newTraining(m, "nhwc", mapped)
	if err != nil {
		return 0, 0, err
	}
	if err := training.take(training.batches); err != nil {
		return 0, 0, err
	}
	bytes, err := m.peak()
	if err != nil {
		return 0, 0, err
	}
	batchBytes, err = reader(mapped).path(m.batch(0, 1, 0, "nhwc"))
	return float64(bytes), batchBytes, err
}
