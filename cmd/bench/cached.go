package main

import (
	"context"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// constantHits shows that the constant cache hits equally often in every batch and that
// CoorDL's static cache does not, with the batch size typical for ImageNet.
func constantHits(ctx context.Context, s *setup) (rows []row, err error) {
	if err := s.need(ctx, &s.photos); err != nil {
		return nil, err
	}
	const batch, epochs = 256, 4
	bytes := int64(0)
	for _, file := range s.photos.files {
		st, err := os.Stat(file)
		if err != nil {
			return nil, err
		}
		bytes += st.Size()
	}
	size := int64(cachedShare * float64(bytes))
	spreads := map[string]spread{}
	for i, policy := range []string{"constant", "static"} {
		s.progress.step(policy+" cache", i, 2)
		m, err := s.start(ctx, nil, s.photos.dir, append(shuffled(batch, trainingCrop...), "--cache-policy", policy, "--cache-size", fmt.Sprint(size))...)
		if err != nil {
			return nil, err
		}
		spreads[policy], err = m.spreadOver(epochs, batch)
		if e := m.unmount(s); err == nil {
			err = e
		}
		if err != nil {
			return nil, err
		}
	}
	ours, static := spreads["constant"], spreads["static"]
	share := float64(size) / float64(bytes)
	const what = "JPEG, batches of 256, 30 % cached: "
	return []row{
		row{What: what + "hit ratio, off cache / dataset size by", Unit: "points", figure: exactly(100 * math.Abs(ours.hitRatio-share)),
			Note: fmt.Sprintf("%.4f, not %.4f", ours.hitRatio, share)}.atMost(1),
		row{What: what + "standard deviation of hits a batch", Unit: "hits", figure: exactly(ours.hits.StdDev), Note: ours.String()}.atMost(0.5),
		row{What: what + "variation of samples loaded a batch", Unit: "cv", figure: exactly(ours.samples().variation())}.atMost(0.01),
		{What: what + "the same with a static cache (CoorDL)", Unit: "cv", figure: exactly(static.samples().variation()), Note: static.String()},
	}, nil
}

// spreadOver reads some epochs and returns their statistics.
func (m *mounted) spreadOver(epochs, batch int) (spread, error) {
	t, err := newTraining(m, "nhwc", mapped)
	if err != nil {
		return spread{}, err
	}
	if err := t.take(epochs * t.batches); err != nil {
		return spread{}, err
	}
	return m.spread(batch)
}

// uncached compares the processor time per image of a cache of size 0 and of no cache.
func uncached(ctx context.Context, s *setup) ([]row, error) {
	if err := s.need(ctx, &s.photos); err != nil {
		return nil, err
	}
	var sides [2]*training
	for i, flags := range [][]string{{"--cache-size", "0"}, {"--cache-policy", "none"}} {
		m, err := s.start(ctx, nil, s.photos.dir, append(shuffled(batchSize, append(trainingCrop, "--io", "buffered")...), flags...)...)
		if err != nil {
			return nil, err
		}
		defer m.unmount(s)
		if sides[i], err = newTraining(m, "nhwc", mapped); err != nil {
			return nil, err
		}
		if _, err := sides[i].processorTime(); err != nil { // warms up memory
			return nil, err
		}
	}
	var ratios, costs []float64
	for i := range 4 * s.rounds {
		s.progress.step("processor time", i, 4*s.rounds)
		var took [2]float64
		for k := range sides {
			side := (k + i) % 2 // alternate which side goes first
			var err error
			if took[side], err = sides[side].processorTime(); err != nil {
				return nil, err
			}
		}
		ratios, costs = append(ratios, took[0]/took[1]), append(costs, took[0])
	}
	return []row{row{What: "processor time an image, --cache-size 0 / no cache", Unit: "x", figure: figureOf(ratios),
		Note: fmt.Sprintf("%.0f µs", figureOf(costs).Value*1e6)}.atMost(1.01)}, nil
}

// processorTime is the daemon's processor time per image, in seconds, over some batches.
func (t *training) processorTime() (float64, error) {
	const batches = 64
	t.m.resume()
	defer t.m.pause()
	if err := t.take(ahead); err != nil {
		return 0, err
	}
	before, err := t.m.processorTime()
	if err != nil {
		return 0, err
	}
	if err := t.take(batches); err != nil {
		return 0, err
	}
	after, err := t.m.processorTime()
	return (after - before) / (batches * float64(t.samples) / float64(t.batches)), err
}

// processorTime is the daemon's processor time so far, in seconds, over all threads,
// including those that have ended.
func (m *mounted) processorTime() (float64, error) {
	const scheduled = 2 // the process CPU clock that does not count in ticks (CPUCLOCK_SCHED)
	var now unix.Timespec
	if err := unix.ClockGettime(int32(^m.cmd.Process.Pid<<3|scheduled), &now); err != nil {
		return 0, fmt.Errorf("processor time of the daemon: %w", err)
	}
	return float64(now.Sec) + float64(now.Nsec)/1e9, nil
}
