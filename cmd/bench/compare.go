package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/throughput"
)

// This file compares two commits: the program that is measured and one that is built from an
// older commit do the same work in turn, in one run, so that what the machine does to one of
// them it does to the other.

// compares is the measurement that -compare asks for.
const compares = "compare"

// notWorse is the ratio to the older commit below which a row is a loss rather than noise.
const notWorse = 0.98

// build builds batchfs as it was at a commit, in a working tree of its own.
func (s *setup) build(ctx context.Context, commit string) (binary string, err error) {
	tree := filepath.Join(s.work, "older")
	s.progress.step("building "+commit, 0, 1)
	defer s.progress.clear()
	if out, err := exec.CommandContext(ctx, "git", "worktree", "add", "--detach", tree, commit).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %s", commit, lastLine(out))
	}
	defer func() {
		// Without the context, so that an interrupted build leaves nothing behind.
		if out, e := exec.Command("git", "worktree", "remove", "--force", tree).CombinedOutput(); e != nil && err == nil {
			err = fmt.Errorf("the working tree of %s: %s", commit, lastLine(out))
		}
	}()
	binary = filepath.Join(s.work, "batchfs-older")
	cmd := exec.CommandContext(ctx, "scripts/build.sh", binary)
	cmd.Dir = tree
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %s", commit, lastLine(out))
	}
	return binary, nil
}

// A compared is a mount of which both commits read epochs.
type compared struct {
	what  string
	set   func(*setup) *imageSet
	flags []string
	read  throughput.Reader
	disk  bool // nothing of the dataset is in the page cache; else all of it is
}

// compareCommits measures throughput, processor time, opens and memory of both commits.
func compareCommits(ctx context.Context, s *setup) (rows []row, err error) {
	if s.older == "" {
		return nil, errors.New("needs a commit: -compare COMMIT")
	}
	none, crop := shuffled(batchSize, "--resize", "none"), shuffled(64, trainingCrop...)
	half := append(slices.Clone(crop), "--dtype", "float16", "--layout", "nchw", "--normalize", "imagenet")
	for _, c := range []compared{
		{"JPEG in its own size, mapped", photos, warm(none...), throughput.Mapped, false},
		{"JPEG in its own size, by read", photos, warm(none...), throughput.Reading(0, true), false},
		{"JPEG, random-resized-crop 224", photos, warm(crop...), throughput.Mapped, false},
		{"    without entry points", photos, warm(without(crop)...), throughput.Mapped, false},
		{"    as float16 NCHW, normalised", photos, warm(half...), throughput.Mapped, false},
		{"    from the disk", photos, cold(crop...), throughput.Mapped, true},
		{"    from the disk, but in the page cache", photos, cold(crop...), throughput.Mapped, false},
		{"    with 8 workers", photos, warm(append(slices.Clone(crop), "--workers", "8")...), throughput.Mapped, false},
		{"    batches of 1", photos, warm(shuffled(1, trainingCrop...)...), throughput.Mapped, false},
		{"PNG 2048x1024 in its own size", cityscapes, warm(shuffled(8, "--resize", "none")...), throughput.Mapped, false},
		{"    from the disk", cityscapes, cold(shuffled(8, "--resize", "none")...), throughput.Mapped, true},
	} {
		if err := s.need(ctx, c.set(s)); err != nil {
			return rows, err
		}
		more, err := s.compare(ctx, c)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", c.what, err)
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// compare measures one mount of both commits.
func (s *setup) compare(ctx context.Context, c compared) ([]row, error) {
	older := *s
	older.batchfs = s.older
	var rate, cost []side
	var opens [2][]float64 // seconds
	var mounts [2]*daemon.Mount
	for i, which := range []*setup{s, &older} {
		t, err := which.train(ctx, c.set(s).Root(), c.flags, c.read)
		if err != nil {
			return nil, err
		}
		defer t.Mount.Unmount(ctx)
		mounts[i] = t.Mount
		where, root := intoPages, c.set(s).Root()
		if c.disk {
			where = fromDisk
		}
		rate = append(rate, where(root, epochTimed(t, &opens[i])))
		cost = append(cost, where(root, func(ctx context.Context) (float64, error) { return processorTime(ctx, t) }))
	}
	rates, err := s.turns(ctx, c.what, s.rounds, rate...)
	if err != nil {
		return nil, err
	}
	slow := [2]float64{slowest(opens[0]), slowest(opens[1])}
	costs, err := s.turns(ctx, c.what+", processor time", s.rounds, cost...)
	if err != nil {
		return nil, err
	}
	var peaks [2]float64
	for i, m := range mounts {
		if peaks[i], err = peak(m); err != nil {
			return nil, err
		}
	}
	note := fmt.Sprintf("%.0f and %.0f images/s", median(rates[0]), median(rates[1]))
	rows := []row{measured(c.what+": now / older", "x", ratios(rates[0], rates[1]), note).atLeast(notWorse)}
	note = fmt.Sprintf("%.0f and %.0f us", 1e6*median(costs[0]), 1e6*median(costs[1]))
	rows = append(rows, measured("    processor time an image", "x", ratios(costs[0], costs[1]), note).atMost(1.02))
	rows = append(rows, once("    99th percentile of reading a batch", "x", slow[0]/slow[1], fmt.Sprintf("%.2f and %.2f ms", 1e3*slow[0], 1e3*slow[1])))
	note = fmt.Sprintf("%.1f and %.1f MiB", peaks[0]/(1<<20), peaks[1]/(1<<20))
	return append(rows, once("    peak memory", "x", peaks[0]/peaks[1], note).atMost(1.05)), nil
}

// epochTimed is Training.Epoch that also notes how many seconds each batch took to open and read.
func epochTimed(t *throughput.Training, took *[]float64) side {
	return func(ctx context.Context) (rate float64, err error) {
		err = t.Turn(ctx, func() error {
			began := time.Now()
			last := began
			for range t.Batches {
				if _, err := t.Take(ctx, 1); err != nil {
					return err
				}
				now := time.Now()
				*took = append(*took, now.Sub(last).Seconds())
				last = now
			}
			rate = float64(t.Samples) / last.Sub(began).Seconds()
			return nil
		})
		return rate, err
	}
}

// slowest is the 99th percentile.
func slowest(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)*99/100]
}
