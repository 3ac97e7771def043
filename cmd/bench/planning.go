package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/throughput"
)

// planning measures what planning for the cache costs concurrent readers, with as many
// samples as ImageNet by default: opens compared with those of a mount without a cache, and readers in
// different epochs compared with readers in the same epoch.
func planning(ctx context.Context, s *setup) ([]row, error) {
	path := filepath.Join(s.work, "planning.csv") // the photos are below s.work, too
	repeated := func(i int) string {
		return fmt.Sprintf("%s/%s,%d,375,500,jpeg", s.photos.kind, s.photos.Path(i%s.photos.images), i%1000)
	}
	if err := s.writeManifest(ctx, path, s.planned, repeated); err != nil {
		return nil, err
	}
	// With a cache for about one sample in a hundred, and without.
	cached, none := []string{"--cache-size", "1GB"}, []string{"--cache-policy", "none"}
	var jumps [2][]float64
	opens := func(n int, flags []string) side {
		return func(ctx context.Context) (float64, error) {
			return mounted(ctx, s, path, planningFlags(1, flags), func(m *daemon.Mount) (float64, error) {
				first, err := timeOpen(m, 0)
				if err != nil {
					return 0, err
				}
				jump, err := timeOpen(m, 37)
				jumps[n] = append(jumps[n], jump)
				return first, err
			})
		}
	}
	firsts, err := s.turns(ctx, "first opens", 2*s.rounds, opens(0, cached), opens(1, none))
	if err != nil {
		return nil, err
	}
	over := func(what string, with, without float64) row {
		return once(what, "ms", 1e3*(with-without), fmt.Sprintf("medians %.1f and %.1f ms", 1e3*with, 1e3*without)).atMost(10)
	}
	// Readers in different epochs, and in the same one, at the start of a run, when plans are made.
	const readers = 8
	together := func(apart int) side {
		return func(ctx context.Context) (float64, error) {
			return mounted(ctx, s, path, planningFlags(readers, cached), func(m *daemon.Mount) (float64, error) {
				return readTogether(m, readers, apart)
			})
		}
	}
	rates, err := s.turns(ctx, "readers", s.rounds, together(0), together(10))
	if err != nil {
		return nil, err
	}
	return []row{
		over(fmt.Sprintf("%d samples: first open after mount, longer with a cache by", s.planned), median(firsts[0]), median(firsts[1])),
		over("    first open after a jump to epoch 37", median(jumps[0]), median(jumps[1])),
		measured("    8 readers in 8 epochs / 8 readers in one", "x", ratios(rates[1], rates[0]), "").atLeast(0.95),
	}, nil
}

// planningFlags returns the flags of every mount here.
func planningFlags(shards int, more []string) []string {
	return append(append(shuffled(batchSize, trainingCrop...), "--io", "buffered", "--shards", strconv.Itoa(shards)), more...)
}

// readTogether reads some batches with one reader per shard, each reader apart epochs after
// the previous one, and returns images per second.
func readTogether(m *daemon.Mount, readers, apart int) (float64, error) {
	const batches = 20
	began := time.Now()
	var group errgroup.Group
	for r := range readers {
		group.Go(func() error {
			for i := range batches {
				if _, err := throughput.Reader(throughput.Mapped).Path(m.Batch(r, r*apart, i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := group.Wait()
	return float64(readers*batches*batchSize) / time.Since(began).Seconds(), err
}
