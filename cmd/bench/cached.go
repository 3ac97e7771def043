package main

import (
	"context"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/throughput"
)

// constantHits shows that the constant cache hits equally often in every batch and that
// CoorDL's static cache and ristretto's TinyLFU do not, with the batch size typical for ImageNet.
func constantHits(ctx context.Context, s *setup) ([]row, error) {
	const batch, epochs = 256, 4
	total := s.photos.Report().Bytes
	size := int64(cachedShare * float64(total))
	var spreads [3]spread
	for i, policy := range []string{"constant", "static", "tinylfu"} {
		s.progress.step(policy+" cache", i, len(spreads))
		flags := append(shuffled(batch, trainingCrop...), "--cache-policy", policy, "--cache-size", fmt.Sprint(size))
		var err error
		spreads[i], err = mounted(ctx, s, s.photos.Root(), flags, func(m *daemon.Mount) (spread, error) {
			t, err := throughput.NewTraining(m, 0, throughput.Mapped)
			if err == nil {
				_, err = t.Take(ctx, epochs*t.Batches)
			}
			if err != nil {
				return spread{}, err
			}
			return spreadOf(m, batch)
		})
		if err != nil {
			return nil, err
		}
	}
	ours, static, lfu := spreads[0], spreads[1], spreads[2]
	share := float64(size) / float64(total)
	const what = "JPEG, batches of 256, 30 % cached: "
	return []row{
		once(what+"hit ratio, off cache / dataset size by", "points", 100*math.Abs(ours.hitRatio-share), fmt.Sprintf("%.4f, not %.4f", ours.hitRatio, share)).atMost(1),
		once(what+"standard deviation of hits a batch", "hits", ours.hits.StdDev, ours.String()).atMost(0.5),
		once(what+"variation of samples loaded a batch", "cv", variation(ours.samples), "").atMost(0.01),
		once(what+"the same with a static cache (CoorDL)", "cv", variation(static.samples), static.String()),
		once(what+"the same with TinyLFU (ristretto)", "cv", variation(lfu.samples), lfu.String()),
	}, nil
}

// uncached compares the processor time per image of a cache of size 0 and of no cache.
func uncached(ctx context.Context, s *setup) ([]row, error) {
	var sides []side
	for _, flags := range [][]string{{"--cache-size", "0"}, {"--cache-policy", "none"}} {
		flags = slices.Concat(shuffled(batchSize, trainingCrop...), []string{"--io", "buffered"}, flags)
		t, err := s.train(ctx, s.photos.Root(), flags, throughput.Mapped)
		if err != nil {
			return nil, err
		}
		defer t.Mount.Unmount(ctx)
		sides = append(sides, func(ctx context.Context) (float64, error) { return processorTime(ctx, t) })
	}
	costs, err := s.turns(ctx, "processor time", 4*s.rounds, sides...)
	if err != nil {
		return nil, err
	}
	note := fmt.Sprintf("%.0f µs", median(costs[0])*1e6)
	return []row{measured("processor time an image, --cache-size 0 / no cache", "x", ratios(costs[0], costs[1]), note).atMost(1.01)}, nil
}

// measuredBatches is over how many batches processor time is taken.
const measuredBatches = 64

// processorTime is the daemon's processor time per image, in seconds, over some batches.
func processorTime(ctx context.Context, t *throughput.Training) (cost float64, err error) {
	err = t.Turn(ctx, func() error {
		before, err := clock(t.Mount.Cmd.Process.Pid)
		if err != nil {
			return err
		}
		if _, err := t.Take(ctx, measuredBatches); err != nil {
			return err
		}
		after, err := clock(t.Mount.Cmd.Process.Pid)
		cost = (after - before) / (measuredBatches * float64(t.Samples) / float64(t.Batches))
		return err
	})
	return cost, err
}

// clock is a process's processor time so far, in seconds, over all threads, including those
// that have ended.
func clock(pid int) (float64, error) {
	const scheduled = 2 // the process CPU clock that does not count in ticks (CPUCLOCK_SCHED)
	var now unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &now); err != nil {
		return 0, fmt.Errorf("processor time of the daemon: %w", err)
	}
	return float64(now.Sec) + float64(now.Nsec)/1e9, nil
}
