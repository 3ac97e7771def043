package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/internal/daemon"
)

// A spread describes the cache hits and the samples and bytes loaded from storage per full
// batch, from the second epoch on.
type spread struct {
	hitRatio             float64
	hits, samples, bytes engine.Distribution
}

func (s spread) String() string {
	return fmt.Sprintf("hits a batch %.1f ± %.2f; from storage %.1f samples (cv %.3f), %.1f MB (cv %.3f)",
		s.hits.Mean, s.hits.StdDev, s.samples.Mean, variation(s.samples), s.bytes.Mean/1e6, variation(s.bytes))
}

// variation is the coefficient of variation.
func variation(d engine.Distribution) float64 {
	if d.Mean == 0 {
		return 0
	}
	return d.StdDev / d.Mean
}

// spreadOf combines the epochs after the first in a mount's stats.json.
func spreadOf(m *daemon.Mount, batch int) (s spread, err error) {
	var document fusefs.Stats
	if err := m.Document(".batchfs/stats.json", &document); err != nil {
		return s, err
	}
	var n, hits, asked float64
	for _, e := range document.Epochs {
		if e.Epoch > 0 {
			w := float64(e.Batches)
			s.hits, s.bytes = pooled(s.hits, n, e.HitsPerBatch, w), pooled(s.bytes, n, e.BytesPerBatch, w)
			n, hits, asked = n+w, hits+float64(e.Hits), asked+float64(e.Hits+e.Misses)
		}
	}
	if n == 0 || asked == 0 {
		return s, errors.New("no second epoch was read")
	}
	s.hitRatio = hits / asked
	s.samples = engine.Distribution{Mean: float64(batch) - s.hits.Mean, StdDev: s.hits.StdDev}
	return s, nil
}

// pooled is the distribution over n batches like d and m batches like e.
func pooled(d engine.Distribution, n float64, e engine.Distribution, m float64) engine.Distribution {
	mean := (n*d.Mean + m*e.Mean) / max(n+m, 1)
	square := (n*(d.StdDev*d.StdDev+d.Mean*d.Mean) + m*(e.StdDev*e.StdDev+e.Mean*e.Mean)) / max(n+m, 1)
	return engine.Distribution{Mean: mean, StdDev: math.Sqrt(max(0, square-mean*mean))}
}

// dropPages empties the page cache of all files below a directory.
func dropPages(dir string) error {
	unix.Sync() // unwritten pages cannot be dropped
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	})
}
