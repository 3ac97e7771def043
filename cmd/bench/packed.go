package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/throughput"
)

// This file measures datasets that the cache keeps packed, all of them, and what packing takes.

// kept makes a mount keep all of a dataset in memory, in one form.
func kept(p *pictures, form string, flags []string) []string {
	size := fmt.Sprint(3 * p.Report.Bytes)
	return slices.Concat([]string{"--io", "buffered", "--cache-size", size, "--cache-form", form}, flags)
}

// secondEpoch reads the epoch after the first, which packs what the first one could not.
func secondEpoch(ctx context.Context) func(t *throughput.Training) error {
	return func(t *throughput.Training) error {
		_, err := t.Take(ctx, t.Batches)
		return err
	}
}

// How long the first epoch, and the first two, take, and how much processor time the mount.
var (
	firstEpoch, firstTwo = figure{"first", "s", 1}, figure{"two", "s", 1}
	firstCost, twoCost   = figure{"first cost", "s", 1}, figure{"two cost", "s", 1}
)

// forgetEntries removes all entry points, which a dataset's first epoch finds.
func forgetEntries(b *bench) error {
	files, err := filepath.Glob(filepath.Join(b.cache(), "batchfs", "*.entries"))
	for _, f := range files {
		err = errors.Join(err, os.Remove(f))
	}
	return err
}

// packing compares first epochs of mounts that pack with those of mounts that do not.
func packing(_ context.Context, b *bench) ([]contest, error) {
	side := func(form string) contender {
		flags := kept(&b.photos, form, crops)
		return b.fresh(b.photos.Root(), flags, func(ctx context.Context, m *daemon.Mount, f figures) error {
			t, err := throughput.NewTraining(m, 0, throughput.Mapped)
			if err != nil {
				return err
			}
			began := time.Now()
			for _, until := range [][2]figure{{firstEpoch, firstCost}, {firstTwo, twoCost}} {
				if _, err := t.Take(ctx, t.Batches); err != nil {
					return err
				}
				f[until[0]] = time.Since(began).Seconds()
				if f[until[1]], err = clock(m.Cmd.Process.Pid); err != nil {
					return err
				}
			}
			return nil
		}).before(func(context.Context) error { return forgetEntries(b) })
	}
	const what = "JPEG, random-resized-crop 224, flip, packed / encoded: "
	return []contest{{what: "packing", contenders: []contender{side("packed"), side("encoded")}, rows: func(r results) []row {
		return []row{
			r.ratio(what+"time of the first epoch", firstEpoch, 0, 1).atMost(1.25),
			r.ratio("    processor time of the mount", firstCost, 0, 1),
			r.ratio(what+"time of the first two", firstTwo, 0, 1).atMost(1),
			r.ratio("    processor time of the mount", twoCost, 0, 1),
		}
	}}}, nil
}
