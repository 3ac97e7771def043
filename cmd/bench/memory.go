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
	var peaks []float64
	var note string
	var batch int64 // bytes
	counts := []int{1, 2, 8, 32}
	for i, workers := range counts {
		s.progress.step("an epoch with ever more workers", i, len(counts))
		flags := warm("--batch-size", strconv.Itoa(batchSize), "--workers", strconv.Itoa(workers))
		most, err := mounted(ctx, s, s.photos.Root(), flags, func(m *daemon.Mount) (float64, error) {
			t, err := throughput.NewTraining(m, 0, throughput.Mapped)
			if err == nil {
				batch, err = t.Take(ctx, 1)
			}
			if err == nil {
				_, err = t.Take(ctx, t.Batches-1)
			}
			if err != nil {
				return 0, err
			}
			return peak(m)
		})
		if err != nil {
			return nil, err
		}
		peaks, note = append(peaks, most), note+fmt.Sprintf(" %d: %.1f MiB;", workers, most/(1<<20))
	}
	const depth, streams, open, spare = 2, 1, 1, 128 << 20
	bound := float64((depth*streams+open+streams)*batch + spare)
	return []row{
		once("peak memory with 1, 2, 8, 32 workers: most / least", "x", slices.Max(peaks)/slices.Min(peaks), note[1:]).atMost(1.10),
		once("    most / (depth x streams + open + 1 per stream) x batch + 128 MiB", "x", slices.Max(peaks)/bound, "").atMost(1),
	}, nil
}
