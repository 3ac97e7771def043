package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// imageNet is the number of training images of ImageNet.
const imageNet = 1_281_167

// manifest mounts a dataset of ImageNet's size from its index.
func manifest(ctx context.Context, s *setup) ([]row, error) {
	path := filepath.Join(s.work, "imagenet.csv")
	if err := writeManifest(path, imageNet); err != nil {
		return nil, err
	}
	small := filepath.Join(s.work, "small.csv")
	if err := writeManifest(small, 1000); err != nil {
		return nil, err
	}
	for _, p := range []string{path, small} {
		if err := s.command(ctx, "index", p); err != nil {
			return nil, err
		}
	}
	base, _, _, err := s.mountManifest(ctx, small)
	if err != nil {
		return nil, err
	}
	var mounts, stats, memory []float64
	for i := range s.rounds {
		s.progress.step("1,281,167 rows", i, s.rounds)
		m, took, stat, err := s.mountManifest(ctx, path)
		if err != nil {
			return nil, err
		}
		mounts, stats = append(mounts, took), append(stats, stat)
		memory = append(memory, (m-base)/imageNet)
	}
	return []row{
		row{What: "1,281,167 rows: mount from the index", Unit: "s", figure: figureOf(mounts)}.atMost(2),
		row{What: "    stat of a random batch, median of 1,000", Unit: "ms", figure: figureOf(stats)}.atMost(1),
		row{What: "    peak memory a row, over a mount of 1,000 rows", Unit: "bytes", figure: figureOf(memory)}.atMost(200),
	}, nil
}

// mountManifest mounts a manifest and returns the daemon's peak memory in bytes, the time
// to mount in seconds, and the time of a stat in milliseconds.
func (s *setup) mountManifest(ctx context.Context, path string) (peak, seconds, milliseconds float64, err error) {
	began := time.Now()
	m, err := s.mount(ctx, path, "--batch-size", "256", "--shards", "2", "--shuffle")
	if err != nil {
		return 0, 0, 0, err
	}
	defer m.unmount(s)
	seconds = time.Since(began).Seconds()
	var times []float64
	r := rand.New(rand.NewPCG(1, 2))
	entries, err := os.ReadDir(filepath.Join(m.dir, "shard-0", "epoch-0"))
	if err != nil {
		return 0, 0, 0, err
	}
	batches := max(1, len(entries)/4)
	for range 1000 {
		began := time.Now()
		if _, err := os.Stat(m.batch(r.IntN(2), r.IntN(100), r.IntN(batches), "nhwc")); err != nil {
			return 0, 0, 0, err
		}
		times = append(times, 1e3*time.Since(began).Seconds())
	}
	slices.Sort(times)
	bytes, err := m.peak()
	return float64(bytes), seconds, times[len(times)/2], err
}

// writeManifest writes a manifest with names like ImageNet's. It contains everything that
// an index holds, so that no file has to exist for a scan.
func writeManifest(path string, rows int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, "path,label,height,width,format")
	for i := range rows {
		class := i / 1300
		fmt.Fprintf(w, "n%08d/n%08d_%d.JPEG,%d,%d,%d,jpeg\n", 1440764+class*7, 1440764+class*7, i%1300*11, class, 375+i%7, 500-i%11)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}
