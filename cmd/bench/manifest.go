package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/throughput"
)

// imageNet is the number of training images of ImageNet.
const imageNet = 1_281_167

// manifest mounts a dataset of ImageNet's size from its index.
func manifest(ctx context.Context, s *setup) ([]row, error) {
	path, small := filepath.Join(s.work, "imagenet.csv"), filepath.Join(s.work, "small.csv")
	for p, rows := range map[string]int{path: imageNet, small: 1000} {
		if err := s.writeManifest(ctx, p, rows, imageNetRow); err != nil {
			return nil, err
		}
	}
	base, err := s.mountManifest(ctx, small)
	if err != nil {
		return nil, err
	}
	var mounts, stats, memory []float64
	for i := range s.rounds {
		s.progress.step("1,281,167 rows", i, s.rounds)
		one, err := s.mountManifest(ctx, path)
		if err != nil {
			return nil, err
		}
		mounts, stats = append(mounts, one.seconds), append(stats, one.stat)
		memory = append(memory, (one.peak-base.peak)/imageNet)
	}
	return []row{
		measured("1,281,167 rows: mount from the index", "s", mounts, "").atMost(2),
		measured("    stat of a random batch, median of 1,000", "ms", stats, "").atMost(1),
		measured("    peak memory a row, over a mount of 1,000 rows", "bytes", memory, "").atMost(200),
	}, nil
}

// A manifestMount is what a mount of a manifest took: the daemon's peak memory in bytes, the
// time to mount in seconds, and the time of a stat in milliseconds.
type manifestMount struct{ peak, seconds, stat float64 }

func (s *setup) mountManifest(ctx context.Context, path string) (manifestMount, error) {
	mounting := time.Now()
	flags := warm("--batch-size", "256", "--shards", "2", "--shuffle")
	return mounted(ctx, s, path, flags, func(m *daemon.Mount) (r manifestMount, err error) {
		r.seconds = time.Since(mounting).Seconds()
		t, err := throughput.NewTraining(m, 0, nil)
		if err != nil {
			return r, err
		}
		var times []float64
		random := rand.New(rand.NewPCG(1, 2))
		for range 1000 {
			began := time.Now()
			if _, err := os.Stat(m.Batch(random.IntN(2), random.IntN(100), random.IntN(t.Batches))); err != nil {
				return r, err
			}
			times = append(times, 1e3*time.Since(began).Seconds())
		}
		r.stat = median(times)
		r.peak, err = peak(m)
		return r, err
	})
}

// imageNetRow is a row with names like ImageNet's. It contains everything that an index holds,
// so that no file has to exist for a scan.
func imageNetRow(i int) string {
	class := i / 1300
	return fmt.Sprintf("n%08d/n%08d_%d.JPEG,%d,%d,%d,jpeg", 1440764+class*7, 1440764+class*7, i%1300*11, class, 375+i%7, 500-i%11)
}

// writeManifest writes a manifest with the given number of rows, and its index.
func (s *setup) writeManifest(ctx context.Context, path string, rows int, row func(i int) string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, "path,label,height,width,format")
	for i := range rows {
		fmt.Fprintln(w, row(i))
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		return err
	}
	_, err = s.command(ctx, "index", path)
	return err
}
