package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

const batchSize = 32

// epochs reads one whole epoch, mapped and by read, and compares with C.
func epochs(ctx context.Context, s *setup) ([]row, error) {
	files, err := s.imageFiles()
	if err != nil {
		return nil, err
	}
	m, err := s.mount(ctx, s.photos, "--batch-size", fmt.Sprint(batchSize), "--resize", "none", "--shuffle")
	if err != nil {
		return nil, err
	}
	defer m.unmount(s)
	var rows []row
	epoch := 0
	for _, c := range []struct {
		what   string
		wanted float64
		read   reader
	}{
		{"one epoch, mapped / C", 0.85, mapped},
		{"one epoch, by read / C", 0.80, reading(0, true)},
	} {
		var ratios []float64
		var rate, ceiling float64
		for range s.rounds {
			if ceiling, err = s.runCeiling(ctx, runtime.NumCPU(), 1, files); err != nil {
				return nil, err
			}
			if rate, err = s.readEpoch(m, epoch, c.read); err != nil {
				return nil, err
			}
			epoch++
			ratios = append(ratios, rate/ceiling)
		}
		value, spread := median(ratios)
		rows = append(rows, row{what: c.what, unit: "C", value: value, wanted: c.wanted,
			note: fmt.Sprintf("%s %.0f images/s, C %.0f", spread, rate, ceiling)})
	}
	return rows, nil
}

// readEpoch reads all batches of an epoch in order: images a second.
func (s *setup) readEpoch(m *mounted, epoch int, read reader) (float64, error) {
	batches, err := filepath.Glob(m.batch(0, epoch, 0, "nhwc")[:len(m.batch(0, epoch, 0, "nhwc"))-len("00000.nhwc")] + "*.nhwc")
	if err != nil {
		return 0, err
	}
	began := time.Now()
	for i := range batches {
		if _, err := read.path(m.batch(0, epoch, i, "nhwc")); err != nil {
			return 0, err
		}
	}
	return float64(s.images) / time.Since(began).Seconds(), nil
}

// firstBatch times the first batch after a mount against decoding the same files
// on all cores.
func firstBatch(ctx context.Context, s *setup) ([]row, error) {
	files, err := s.imageFiles()
	if err != nil {
		return nil, err
	}
	files = files[:batchSize] // without shuffling, the first batch
	var ratios []float64
	var took float64
	for range 3 * s.rounds {
		m, err := s.mount(ctx, s.photos, "--batch-size", fmt.Sprint(batchSize))
		if err != nil {
			return nil, err
		}
		began := time.Now()
		f, err := os.Open(m.batch(0, 0, 0, "nhwc")) // returns when the batch is complete
		if err != nil {
			return nil, err
		}
		took = time.Since(began).Seconds()
		f.Close()
		if err := m.unmount(s); err != nil {
			return nil, err
		}
		rate, err := s.runCeiling(ctx, runtime.NumCPU(), 1, files) // once, in a new process, too
		if err != nil {
			return nil, err
		}
		ratios = append(ratios, took/(batchSize/rate))
	}
	value, spread := median(ratios)
	return []row{{what: "open of the first batch after mount / decoding it on all cores", unit: "x", value: value, wanted: 1.5, atMost: true,
		note: fmt.Sprintf("%s %.1f ms", spread, took*1e3)}}, nil
}

// memoryByWorkers reads an epoch with ever more workers and looks at the daemon's
// peak memory.
func memoryByWorkers(ctx context.Context, s *setup) ([]row, error) {
	var peaks []float64
	var note string
	var batchBytes int64
	for _, workers := range []int{1, 2, 8, 32} {
		m, err := s.mount(ctx, s.photos, "--batch-size", fmt.Sprint(batchSize), "--workers", fmt.Sprint(workers))
		if err != nil {
			return nil, err
		}
		if _, err := s.readEpoch(m, 0, mapped); err != nil {
			return nil, err
		}
		peak, err := m.peak()
		if err != nil {
			return nil, err
		}
		if batchBytes, err = reader(mapped).path(m.batch(0, 1, 0, "nhwc")); err != nil {
			return nil, err
		}
		if err := m.unmount(s); err != nil {
			return nil, err
		}
		peaks = append(peaks, float64(peak))
		note += fmt.Sprintf(" %d: %.1f MiB;", workers, float64(peak)/(1<<20))
	}
	_, _ = median(peaks) // sorts
	const depth, streams, open, spare = 2, 1, 1, 128 << 20
	bound := float64((depth*streams+open+streams)*batchBytes + spare)
	return []row{
		{what: "peak memory with 1, 2, 8, 32 workers: most / least", unit: "x", value: peaks[3] / peaks[0], wanted: 1.10, atMost: true, note: note},
		{what: "    most / (depth x streams + open + 1 per stream) x batch + 128 MiB", unit: "x", value: peaks[3] / bound, wanted: 1, atMost: true},
	}, nil
}
