package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// planning measures what planning for the cache costs concurrent readers, with as many
// samples as ImageNet: opens compared with those of a mount without a cache, and readers in
// different epochs compared with readers in the same epoch.
func planning(ctx context.Context, s *setup) ([]row, error) {
	if err := s.need(ctx, &s.photos); err != nil {
		return nil, err
	}
	path := filepath.Join(s.work, "planning.csv")
	if err := s.photos.repeat(path, imageNet); err != nil {
		return nil, err
	}
	if err := s.command(ctx, "index", "--allow-outside", path); err != nil {
		return nil, err
	}
	var first, jump [2][]float64 // milliseconds; with and without a cache
	for i := range 2 * s.rounds {
		for k := range first {
			side := (k + i) % 2 // alternate which side goes first
			s.progress.step("first opens", 2*i+k, 4*s.rounds)
			a, b, err := s.firstOpens(ctx, path, cacheFlags[side])
			if err != nil {
				return nil, err
			}
			first[side], jump[side] = append(first[side], a), append(jump[side], b)
		}
	}
	over := func(what string, ms [2][]float64) row {
		with, without := figureOf(ms[0]), figureOf(ms[1])
		return row{What: what, Unit: "ms", figure: exactly(with.Value - without.Value),
			Note: fmt.Sprintf("medians %.1f and %.1f ms", with.Value, without.Value)}.atMost(10)
	}
	apart, err := s.readersApart(ctx, path)
	return []row{
		over("1,281,167 samples: first open after mount, longer with a cache by", first),
		over("    first open after a jump to epoch 37", jump),
		row{What: "    8 readers in 8 epochs / 8 readers in one", Unit: "x", figure: figureOf(apart)}.atLeast(0.95),
	}, err
}

// cacheFlags: with a cache for about one sample in a hundred, and without.
var cacheFlags = [2][]string{{"--cache-size", "1GB"}, {"--cache-policy", "none"}}

// planningFlags returns the flags of every mount here.
func planningFlags(shards int, more []string) []string {
	return append(append(shuffled(batchSize, trainingCrop...), "--io", "buffered", "--allow-outside", "--shards", strconv.Itoa(shards)), more...)
}

// firstOpens mounts, and times the first open and the first open of another epoch, in
// milliseconds.
func (s *setup) firstOpens(ctx context.Context, path string, flags []string) (first, jump float64, err error) {
	m, err := s.start(ctx, nil, path, planningFlags(1, flags)...)
	if err != nil {
		return 0, 0, err
	}
	defer m.unmount(s)
	if first, err = m.timeOpen(0); err == nil {
		jump, err = m.timeOpen(37)
	}
	return first, jump, err
}

// timeOpen times the open of the first batch of an epoch, in milliseconds.
func (m *mounted) timeOpen(epoch int) (float64, error) {
	began := time.Now()
	f, err := os.Open(m.batch(0, epoch, 0, "nhwc"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return 1e3 * time.Since(began).Seconds(), nil
}

// readersApart compares the speed of readers in different epochs with that of readers in
// the same one, each with its own shard, at the start of a run, when plans are made.
func (s *setup) readersApart(ctx context.Context, path string) (ratios []float64, err error) {
	const readers = 8
	for i := range s.rounds {
		s.progress.step("readers", i, s.rounds)
		var rates [2]float64
		for k := range rates {
			side := (k + i) % 2
			m, err := s.start(ctx, nil, path, planningFlags(readers, cacheFlags[0])...)
			if err != nil {
				return nil, err
			}
			rates[side], err = m.readTogether(readers, 10*side)
			if e := m.unmount(s); err == nil {
				err = e
			}
			if err != nil {
				return nil, err
			}
		}
		ratios = append(ratios, rates[1]/rates[0])
	}
	return ratios, nil
}

// readTogether reads some batches with one reader per shard, each reader apart epochs after
// the previous one, and returns images per second.
func (m *mounted) readTogether(readers, apart int) (float64, error) {
	const batches = 20
	errs := make([]error, readers)
	began := time.Now()
	var wait sync.WaitGroup
	for r := range readers {
		wait.Go(func() {
			for i := range batches {
				if _, err := reader(mapped).path(m.batch(r, r*apart, i, "nhwc")); err != nil {
					errs[r] = err
					return
				}
			}
		})
	}
	wait.Wait()
	return float64(readers*batches*batchSize) / time.Since(began).Seconds(), errors.Join(errs...)
}

// repeat writes a manifest with the given number of rows, which repeats the images.
func (d *imageSet) repeat(path string, rows int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, "path,label,height,width,format")
	for i := range rows {
		name, err := filepath.Rel(filepath.Dir(path), d.files[i%len(d.files)])
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s,%d,375,500,jpeg\n", name, i%1000)
	}
	return w.Flush()
}
