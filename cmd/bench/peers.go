package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"

	"github.com/batchfs/batchfs/internal/throughput"
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
		{"PyTorch's DataLoader with Pillow", 5.5, "dataloader.py", []string{"--decoder", "pillow"}, processes},
		{"PyTorch's DataLoader with torchvision's decoder", 5, "dataloader.py", []string{"--decoder", "torchvision"}, processes},
		{"NVIDIA DALI on the CPU", 4, "dali.py", nil, []int{n, n + 1, 2 * n}},
	}
}

// peers measures batchfs and the peers in turns.
func peers(ctx context.Context, s *setup) ([]row, error) {
	batches := max(s.photos.images/peerBatch, 4*runtime.NumCPU())
	ours, err := s.startMounted(ctx, s.photos.Root(), warm(shuffled(peerBatch, trainingCrop...)...))
	if err != nil {
		return nil, fmt.Errorf("batchfs: %w", err)
	}
	defer ours.mount.Unmount(ctx)
	defer ours.stop()
	contenders, skipped, err := s.opponents(ctx, ours, s.allPeers(), batches/2)
	defer stopAll(contenders)
	if err != nil {
		return nil, err
	}
	sides := append([]side{s.c(runtime.NumCPU(), s.photos.files)}, consuming(contenders, batches)...)
	rates, err := s.turns(ctx, "side by side", s.rounds, sides...)
	if err != nil {
		return nil, err
	}
	return append(peerRows(contenders, rates), skipped...), nil
}

// opponents starts the peers that can run here and adds them to batchfs; there is a row for each of the others. Those
// returned are to be stopped, all but batchfs, also after an error.
func (s *setup) opponents(ctx context.Context, ours *contender, list []peer, batches int) (contenders []*contender, skipped []row, err error) {
	contenders = []*contender{ours}
	for _, p := range list {
		c, err := s.bestOf(ctx, p, batches)
		if ctx.Err() != nil {
			return contenders, nil, ctx.Err()
		}
		if err != nil {
			skipped = append(skipped, row{what: "batchfs / " + p.name, skipped: err.Error()})
			continue
		}
		c.wanted = p.wanted
		contenders = append(contenders, c)
	}
	return contenders, skipped, nil
}

// stopAll stops all but the first, which is batchfs.
func stopAll(contenders []*contender) {
	for _, c := range contenders[1:] {
		c.stop()
	}
}

// consuming are the rates at which contenders get batches.
func consuming(contenders []*contender, batches int) (sides []side) {
	for _, c := range contenders {
		sides = append(sides, func(context.Context) (float64, error) {
			rate, err := c.measure(batches)
			if err != nil {
				err = fmt.Errorf("%s: %w", c.name, err)
			}
			return rate, err
		})
	}
	return sides
}

// peerRows are the rows of C, batchfs and the others, whose rates are in this order.
func peerRows(contenders []*contender, rates [][]float64) []row {
	ours, others := contenders[0], contenders[1:]
	rows := []row{
		measured("C: every file decoded in full, on all cores, and nothing else", "images/s", rates[0], ""),
		measured(ours.what, "images/s", rates[1], ""),
	}
	for i, c := range others {
		rows = append(rows, measured(c.name, "images/s", rates[2+i], c.what))
	}
	rows = append(rows, measured("batchfs / C", "x", ratios(rates[1], rates[0]), ""))
	for i, c := range others {
		rows = append(rows, measured("batchfs / "+c.name, "x", ratios(rates[1], rates[2+i]), "").atLeast(c.wanted))
	}
	return append(rows, memoryRows(contenders, rates[1:])...)
}

// memoryRows are the rows of what contenders take, and of what each would at the others' rate: memory for each image a second.
func memoryRows(contenders []*contender, rates [][]float64) (rows []row) {
	costs := make([][]float64, len(contenders))
	for i, c := range contenders {
		last := len(c.pss) - len(rates[i]) // those before were to find its number of workers
		pss, shm := c.pss[last:], c.shm[last:]
		costs[i] = ratios(pss, rates[i])
		rows = append(rows, measured("memory of "+c.name+": PSS of all its processes", "MiB", pss, ""), measured("and what they have in /dev/shm", "MiB", shm, ""))
	}
	for i, c := range contenders[1:] {
		rows = append(rows, measured("memory for an image a second: "+c.name+" / batchfs", "x", ratios(costs[1+i], costs[0]), ""))
	}
	return rows
}

// startMounted mounts a dataset and starts the process that reads the mount.
func (s *setup) startMounted(ctx context.Context, dataset string, flags []string) (*contender, error) {
	m, err := s.start(ctx, dataset, flags)
	if err != nil {
		return nil, err
	}
	c, err := s.startContender(ctx, "batchfs", "mounted.py", "--mount", m.Dir, "--ahead", strconv.Itoa(throughput.Ahead))
	if err != nil {
		return nil, errors.Join(err, m.Unmount(ctx))
	}
	c.mount = m
	m.Pause()
	return c, nil
}

// bestOf starts a peer with each number of workers and keeps the fastest. Numbers that fail
// are skipped; if all fail, the last error is returned.
func (s *setup) bestOf(ctx context.Context, p peer, batches int) (best *contender, err error) {
	var most float64
	for i, workers := range p.workers {
		s.progress.step(p.name+", numbers of workers", i, len(p.workers))
		args := append([]string{"--dataset", s.photos.Root(), "--workers", strconv.Itoa(workers),
			"--batch-size", strconv.Itoa(peerBatch), "--size", strconv.Itoa(peerSize)}, p.args...)
		c, failed := s.startContender(ctx, p.name, p.script, args...)
		if failed != nil {
			err = failed
			continue
		}
		rate, failed := c.measure(batches)
		if failed != nil {
			err = failed
		} else if rate > most {
			best, c, most = c, best, rate
		}
		if c != nil {
			c.stop()
		}
	}
	if best != nil {
		return best, nil
	}
	return nil, err
}
