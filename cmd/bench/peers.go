package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
)

// A peer is an alternative to batchfs. It reads the same files and makes the same crops and
// batches, consumed in a Python process like those of batchfs. The best number of workers
// is found first.
type peer struct {
	name    string
	wanted  float64 // speedup of batchfs over it
	script  string
	args    []string
	workers []int
}

const (
	peerBatch = 64
	peerSize  = 224
)

func (s *setup) allPeers() []peer {
	n := runtime.NumCPU()
	processes := slices.Compact([]int{max(1, n-1), n, n + 1, 2 * n})
	return []peer{
		{"PyTorch's DataLoader with Pillow", 2.7, "dataloader.py", []string{"--decoder", "pillow"}, processes},
		{"PyTorch's DataLoader with torchvision's decoder", 2.2, "dataloader.py", []string{"--decoder", "torchvision"}, processes},
		{"NVIDIA DALI on the CPU", 1.1, "dali.py", nil, []int{n, n + 1, 2 * n}},
	}
}

// peers measures batchfs and the peers in turns.
func peers(ctx context.Context, s *setup) ([]row, error) {
	if err := s.need(ctx, &s.photos); err != nil {
		return nil, err
	}
	batches := max(s.photos.images/peerBatch, 4*runtime.NumCPU())
	ours, err := s.startMounted(ctx)
	if err != nil {
		return nil, fmt.Errorf("batchfs: %w", err)
	}
	defer ours.mount.unmount(s)
	defer ours.stop()
	var rows []row
	var contenders []*contender
	var wanted []float64
	for _, p := range s.allPeers() {
		c, err := s.bestOf(ctx, p, batches/2)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			rows = append(rows, row{What: "batchfs / " + p.name, Skipped: err.Error()})
			continue
		}
		defer c.stop()
		contenders, wanted = append(contenders, c), append(wanted, p.wanted)
	}
	t, err := s.takeTurns(ctx, append([]*contender{ours}, contenders...), batches)
	if err != nil {
		return nil, err
	}
	return append(t.rows(ours, contenders, wanted), rows...), nil
}

// startMounted mounts the photos and starts the process that reads the mount.
func (s *setup) startMounted(ctx context.Context) (*contender, error) {
	m, err := s.mount(ctx, s.photos.dir, shuffled(peerBatch, trainingCrop...)...)
	if err != nil {
		return nil, err
	}
	c, err := s.startContender(ctx, "batchfs", "mounted.py", "--mount", m.dir, "--ahead", strconv.Itoa(ahead))
	if err != nil {
		return nil, errors.Join(err, m.unmount(s))
	}
	c.mount = m
	m.pause()
	return c, nil
}

// bestOf starts a peer with each number of workers and keeps the fastest. Numbers that fail
// are skipped; if all fail, the last error is returned.
func (s *setup) bestOf(ctx context.Context, p peer, batches int) (best *contender, err error) {
	var most float64
	for i, workers := range p.workers {
		s.progress.step(p.name+", numbers of workers", i, len(p.workers))
		c, rate, failed := s.try(ctx, p, workers, batches)
		switch {
		case failed != nil:
			err = failed
		case rate <= most:
			c.stop()
		default:
			if best != nil {
				best.stop()
			}
			best, most = c, rate
		}
	}
	if best != nil {
		return best, nil
	}
	return nil, err
}

// try starts a peer and measures it once.
func (s *setup) try(ctx context.Context, p peer, workers, batches int) (*contender, float64, error) {
	args := append([]string{"--dataset", s.photos.dir, "--workers", strconv.Itoa(workers),
		"--batch-size", strconv.Itoa(peerBatch), "--size", strconv.Itoa(peerSize)}, p.args...)
	c, err := s.startContender(ctx, p.name, p.script, args...)
	if err != nil {
		return nil, 0, err
	}
	rate, err := c.measure(batches)
	if err != nil {
		c.stop()
		return nil, 0, err
	}
	return c, rate, nil
}

// turns are the rates of each round: of C, and of each contender.
type turns struct {
	ceilings []float64
	rates    map[*contender][]float64
}

func (s *setup) takeTurns(ctx context.Context, contenders []*contender, batches int) (t turns, err error) {
	t.rates = map[*contender][]float64{}
	for i := range s.rounds {
		s.progress.step("side by side", i, s.rounds)
		c, err := s.runCeiling(ctx, runtime.NumCPU(), s.photos.files)
		if err != nil {
			return t, err
		}
		t.ceilings = append(t.ceilings, c)
		for _, c := range contenders {
			rate, err := c.measure(batches)
			if err != nil {
				return t, fmt.Errorf("%s: %w", c.name, err)
			}
			t.rates[c] = append(t.rates[c], rate)
		}
	}
	return t, nil
}

func (t turns) rows(ours *contender, others []*contender, wanted []float64) []row {
	rate := func(what string, x []float64) row {
		return row{What: what, Unit: "images/s", figure: figureOf(x)}
	}
	over := func(what string, x []float64) row {
		ratios := make([]float64, len(x))
		for i, r := range t.rates[ours] {
			ratios[i] = r / x[i]
		}
		return row{What: what, Unit: "x", figure: figureOf(ratios)}
	}
	rows := []row{rate("C: every file decoded in full, on all cores, and nothing else", t.ceilings), rate(ours.what, t.rates[ours])}
	for _, c := range others {
		rows = append(rows, rate(c.name, t.rates[c]))
		rows[len(rows)-1].Note = c.what
	}
	rows = append(rows, over("batchfs / C", t.ceilings))
	for i, c := range others {
		rows = append(rows, over("batchfs / "+c.name, t.rates[c]).atLeast(wanted[i]))
	}
	return rows
}
