package main

import (
	"context"
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
func manifest(ctx context.Context, b *bench) ([]contest, error) {
	stat := figure{"stat", "ms", 1e3}
	var sides []contender
	for _, n := range []int{1000, imageNet} {
		path := filepath.Join(b.work, fmt.Sprintf("imagenet-%d.csv", n))
		// It says all that an index holds, so that no file has to exist for a scan.
		if err := b.manifestOf(ctx, path, "path,label,height,width,format", n, imageNetRow); err != nil {
			return nil, err
		}
		flags := warm(shuffled(256, "--shards", "2"))
		sides = append(sides, b.fresh(path, flags, func(_ context.Context, m *daemon.Mount, f figures) error {
			t, err := throughput.NewTraining(m, 0, nil)
			if err != nil {
				return err
			}
			var times []float64
			random := rand.New(rand.NewPCG(1, 2))
			for range 1000 {
				began := time.Now()
				if _, err := os.Stat(m.Batch(random.IntN(2), random.IntN(100), random.IntN(t.Batches))); err != nil {
					return err
				}
				times = append(times, time.Since(began).Seconds())
			}
			f[stat] = numbers(times...).median()
			return nil
		}))
	}
	return []contest{{what: "1,281,167 rows", contenders: sides, rows: func(r results) []row {
		perRow := r.of(peak, 1).minus(r.of(peak, 0)).times(1 << 20 / float64(imageNet))
		return []row{
			r.row("1,281,167 rows: mount from the index", mounted, 1).atMost(2),
			r.row("    stat of a random batch, median of 1,000", stat, 1).atMost(1),
			measured("    peak memory a row, over a mount of 1,000 rows", "bytes", perRow).atMost(200),
		}
	}}}, nil
}

// imageNetRow is a row with names like ImageNet's.
func imageNetRow(i int) string {
	class := i / 1300
	folder := fmt.Sprintf("n%08d", 1440764+class*7)
	return fmt.Sprintf("%s/%s_%d.JPEG,%d,%d,%d,jpeg", folder, folder, i%1300*11, class, 375+i%7, 500-i%11)
}
