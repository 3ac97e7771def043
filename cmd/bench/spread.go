package main

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/daemon"
)

// A distribution is one from stats.json, of a quantity counted per full batch.
type distribution struct {
	Mean, StdDev float64
}

// variation is the coefficient of variation.
func (d distribution) variation() float64 {
	if d.Mean == 0 {
		return 0
	}
	return d.StdDev / d.Mean
}

// cacheStats are the figures of one epoch in stats.json.
type cacheStats struct {
	Epoch         int
	Batches       int64
	Hits, Misses  int64
	HitsPerBatch  distribution `json:"hits_per_batch"`
	BytesPerBatch distribution `json:"storage_bytes_per_batch"`
}

// A spread describes the storage reads and cache hits per full batch, from the second epoch
// on.
type spread struct {
	batch       int
	known       bool // reads from storage are known; not so with the page cache
	hitRatio    float64
	hits, bytes distribution
}

func (s spread) String() string {
	if !s.known {
		return fmt.Sprintf("%.1f MB a batch (cv %.3f), as the disk saw it", s.bytes.Mean/1e6, s.bytes.variation())
	}
	samples := s.samples()
	return fmt.Sprintf("hits a batch %.1f ± %.2f; from storage %.1f samples (cv %.3f), %.1f MB (cv %.3f)",
		s.hits.Mean, s.hits.StdDev, samples.Mean, samples.variation(), s.bytes.Mean/1e6, s.bytes.variation())
}

// samples is the distribution of samples loaded from storage per batch.
func (s spread) samples() distribution {
	return distribution{Mean: float64(s.batch) - s.hits.Mean, StdDev: s.hits.StdDev}
}

// spreadOf combines the epochs after the first in a mount's stats.json.
func spreadOf(m *daemon.Mount, batch int) (spread, error) {
	var document struct{ Epochs []cacheStats }
	if err := m.Document(".batchfs/stats.json", &document); err != nil {
		return spread{}, err
	}
	s := spread{batch: batch, known: true}
	var n, hits, asked float64
	var squares [2]float64
	for _, e := range document.Epochs {
		if e.Epoch == 0 {
			continue
		}
		w := float64(e.Batches)
		n, hits, asked = n+w, hits+float64(e.Hits), asked+float64(e.Hits+e.Misses)
		s.hits.Mean += w * e.HitsPerBatch.Mean
		s.bytes.Mean += w * e.BytesPerBatch.Mean
		squares[0] += w * (e.HitsPerBatch.StdDev*e.HitsPerBatch.StdDev + e.HitsPerBatch.Mean*e.HitsPerBatch.Mean)
		squares[1] += w * (e.BytesPerBatch.StdDev*e.BytesPerBatch.StdDev + e.BytesPerBatch.Mean*e.BytesPerBatch.Mean)
	}
	if n == 0 || asked == 0 {
		return s, fmt.Errorf("no second epoch was read")
	}
	s.hitRatio = hits / asked
	for k, d := range []*distribution{&s.hits, &s.bytes} {
		d.Mean /= n
		d.StdDev = math.Sqrt(max(0, squares[k]/n-d.Mean*d.Mean))
	}
	return s, nil
}

func distributionOf(x []float64) (d distribution) {
	squares := 0.0
	for _, v := range x {
		d.Mean += v / float64(len(x))
	}
	for _, v := range x {
		squares += (v - d.Mean) * (v - d.Mean) / float64(len(x))
	}
	d.StdDev = math.Sqrt(squares)
	return d
}

// dropPages empties the page cache of all files below a directory.
func dropPages(dir string) error {
	unix.Sync() // unwritten pages cannot be dropped
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	})
}
