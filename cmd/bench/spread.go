package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/internal/daemon"
)

// Figures of the cache hits and of the samples and bytes loaded from storage per full batch, from
// the second epoch on. Variations are coefficients.
var (
	hitRatio         = figure{"hit ratio", "", 1}
	hitsMean         = figure{"hits", "hits", 1}
	hitsDeviation    = figure{"standard deviation of hits", "hits", 1}
	samplesMean      = figure{"samples", "samples", 1}
	samplesVariation = figure{"variation of samples", "cv", 1}
	bytesMean        = figure{"bytes", "MB", 1e-6}
	bytesVariation   = figure{"variation of bytes", "cv", 1}
)

// spread describes the figures of a contender's last turn.
func (r results) spread(i int) string {
	of := func(f figure) float64 { return r.of(f, i).last().median() }
	return fmt.Sprintf("hits a batch %.1f ± %.2f; from storage %.1f samples (cv %.3f), %.1f MB (cv %.3f)",
		of(hitsMean), of(hitsDeviation), of(samplesMean), of(samplesVariation), of(bytesMean), of(bytesVariation))
}

// spreadOf combines the epochs after the first in a mount's stats.json.
func spreadOf(m *daemon.Mount, batch int, f figures) error {
	var document fusefs.Stats
	if err := m.Document(".batchfs/stats.json", &document); err != nil {
		return err
	}
	var n, hits, asked float64
	var perBatch, bytes engine.Distribution
	for _, e := range document.Epochs {
		if e.Epoch > 0 {
			w := float64(e.Batches)
			perBatch, bytes = pooled(perBatch, n, e.HitsPerBatch, w), pooled(bytes, n, e.BytesPerBatch, w)
			n, hits, asked = n+w, hits+float64(e.Hits), asked+float64(e.Hits+e.Misses)
		}
	}
	if n == 0 || asked == 0 {
		return errors.New("no second epoch was read")
	}
	samples := float64(batch) - perBatch.Mean
	f[hitRatio], f[hitsMean], f[hitsDeviation] = hits/asked, perBatch.Mean, perBatch.StdDev
	f[samplesMean], f[samplesVariation] = samples, variation(samples, perBatch.StdDev)
	f[bytesMean], f[bytesVariation] = bytes.Mean, variation(bytes.Mean, bytes.StdDev)
	return nil
}

// variation is the coefficient of variation.
func variation(mean, deviation float64) float64 {
	if mean == 0 {
		return 0
	}
	return deviation / mean
}

// pooled is the distribution over n batches like d and m batches like e.
func pooled(d engine.Distribution, n float64, e engine.Distribution, m float64) engine.Distribution {
	mean := (n*d.Mean + m*e.Mean) / max(n+m, 1)
	square := (n*(d.StdDev*d.StdDev+d.Mean*d.Mean) + m*(e.StdDev*e.StdDev+e.Mean*e.Mean)) / max(n+m, 1)
	return engine.Distribution{Mean: mean, StdDev: math.Sqrt(max(0, square-mean*mean))}
}
