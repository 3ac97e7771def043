package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/throughput"
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
		once("peak memory with 1, 2, 8, 32 workers: most / least", "x", slices.Max(peaks)/slices.Min(peaks), note[1:]).atMost(1.10),
		once("    most / (depth x streams + open + 1 per stream) x batch + 128 MiB", "x", slices.Max(peaks)/bound, "").atMost(1),
	}, nil
}

// peakOf reads one epoch and returns the daemon's peak memory and the size of a batch.
func (s *setup) peakOf(ctx context.Context, workers int) (peakBytes float64, batchBytes int64, err error) {
	flags := slices.Concat(warm, []string{"--batch-size", strconv.Itoa(batchSize), "--workers", strconv.Itoa(workers)})
	err = s.mounted(ctx, s.photos.dir, flags, func(m *daemon.Mount) error {
		t, err := newTraining(m, throughput.Mapped)
		if err != nil {
			return err
		}
		if _, err := t.Take(ctx, t.Batches); err != nil {
			return err
		}
		most, err := peak(m)
		if err != nil {
			return err
		}
		peakBytes = float64(most)
		batchBytes, err = t.Take(ctx, 1)
		return err
	})
	return peakBytes, batchBytes, err
}
