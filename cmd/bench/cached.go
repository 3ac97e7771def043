package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/throughput"
)

// constantHits shows that the constant cache hits equally often in every batch and that
// CoorDL's static cache does not, with the batch size typical for ImageNet.
func constantHits(ctx context.Context, s *setup) (rows []row, err error) {
	if err := s.need(ctx, &s.photos); err != nil {
		return nil, err
	}
	const batch, epochs = 256, 4
	total := int64(0)
	for _, file := range s.photos.files {
		st, err := os.Stat(file)
		if err != nil {
			return nil, err
		}
		total += st.Size()
	}
	size := int64(cachedShare * float64(total))
	spreads := map[string]spread{}
	for i, policy := range []string{"constant", "static"} {
		s.progress.step(policy+" cache", i, 2)
		flags := append(shuffled(batch, trainingCrop...), "--cache-policy", policy, "--cache-size", fmt.Sprint(size))
		err := s.mounted(ctx, s.photos.dir, flags, func(m *daemon.Mount) error {
			t, err := newTraining(m, throughput.Mapped)
			if err == nil {
				_, err = t.Take(ctx, epochs*t.Batches)
			}
			if err == nil {
				spreads[policy], err = spreadOf(m, batch)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	ours, static := spreads["constant"], spreads["static"]
	share := float64(size) / float64(total)
	const what = "JPEG, batches of 256, 30 % cached: "
	return []row{
		once(what+"hit ratio, off cache / dataset size by", "points", 100*math.Abs(ours.hitRatio-share), fmt.Sprintf("%.4f, not %.4f", ours.hitRatio, share)).atMost(1),
		once(what+"standard deviation of hits a batch", "hits", ours.hits.StdDev, ours.String()).atMost(0.5),
		once(what+"variation of samples loaded a batch", "cv", ours.samples().variation(), "").atMost(0.01),
		once(what+"the same with a static cache (CoorDL)", "cv", static.samples().variation(), static.String()),
	}, nil
}

// uncached compares the processor time per image of a cache of size 0 and of no cache.
func uncached(ctx context.Context, s *setup) ([]row, error) {
	if err := s.need(ctx, &s.photos); err != nil {
		return nil, err
	}
	var sides [2]side
	for i, flags := range [][]string{{"--cache-size", "0"}, {"--cache-policy", "none"}} {
		m, err := s.start(ctx, nil, s.photos.dir, slices.Concat(shuffled(batchSize, trainingCrop...), []string{"--io", "buffered"}, flags)...)
		if err != nil {
			return nil, err
		}
		defer m.Unmount(s.batchfs)
		t, err := newTraining(m, throughput.Mapped)
		if err != nil {
			return nil, err
		}
		sides[i] = func(ctx context.Context) (float64, error) { return processorTime(ctx, t) }
		if _, err := sides[i](ctx); err != nil { // warms up memory
			return nil, err
		}
	}
	costs, err := s.turns(ctx, "processor time", 4*s.rounds, sides[:]...)
	if err != nil {
		return nil, err
	}
	note := fmt.Sprintf("%.0f µs", median(costs[0])*1e6)
	return []row{measured("processor time an image, --cache-size 0 / no cache", "x", ratios(costs[0], costs[1]), note).atMost(1.01)}, nil
}

// processorTime is the daemon's processor time per image, in seconds, over some batches.
func processorTime(ctx context.Context, t *throughput.Training) (float64, error) {
	const batches = 64
	t.Mount.Resume()
	defer t.Mount.Pause()
	if _, err := t.Take(ctx, throughput.Ahead); err != nil {
		return 0, err
	}
	before, err := clock(t.Mount.Cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	if _, err := t.Take(ctx, batches); err != nil {
		return 0, err
	}
	after, err := clock(t.Mount.Cmd.Process.Pid)
	return (after - before) / (batches * float64(t.Samples) / float64(t.Batches)), err
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
