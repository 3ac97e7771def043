package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/throughput"
)

// imageNet is the number of training images of ImageNet.
const imageNet = 1_281_167

// manifestHeader names all that an index holds, so that no file has to exist for a scan.
const manifestHeader = "path,label,height,width,format"

// manifest mounts a dataset of ImageNet's size from its index.
func manifest(ctx context.Context, b *bench) ([]contest, error) {
	stat := figure{"stat", "ms", 1e3}
	var sides []contender
	for _, n := range []int{1000, imageNet} {
		path := filepath.Join(b.work, fmt.Sprintf("imagenet-%d.csv", n))
		if err := b.manifestOf(ctx, path, manifestHeader, n, imageNetRow); err != nil {
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

// planning measures what planning for the cache costs concurrent readers, with as many samples as
// ImageNet by default: opens compared with those of a mount without a cache, and readers in
// different epochs compared with readers in the same epoch.
func planning(ctx context.Context, b *bench) ([]contest, error) {
	path := filepath.Join(b.work, "planning.csv") // the photos are below b.work, too
	repeated := func(i int) string {
		return fmt.Sprintf("%s/%s,%d,375,500,jpeg", b.photos.kind, b.photos.Path(i%b.photos.images), i%1000)
	}
	if err := b.manifestOf(ctx, path, manifestHeader, b.planned, repeated); err != nil {
		return nil, err
	}
	flags := func(shards int, cache ...string) []string {
		read := []string{"--io", "buffered", "--shards", strconv.Itoa(shards)}
		return slices.Concat(crops, read, cache)
	}
	const jump, readers = 37, 8
	const cached = "--cache-size=1GB" // for about one sample in a hundred
	over := func(what string, r results, epoch int) row {
		with, without := r.of(openOf(epoch), 0).middle(), r.of(openOf(epoch), 1).middle()
		return measured(what, "ms", with.minus(without)).atMost(10).noted("medians %v and %v ms", with, without)
	}
	opening := []contender{
		b.fresh(path, flags(1, cached), opens(0, jump)),
		b.fresh(path, flags(1, "--cache-policy=none"), opens(0, jump)),
	}
	// Readers in different epochs, and in the same one, at the start of a run, when plans are made.
	together := func(apart int) contender {
		return b.fresh(path, flags(readers, cached), func(ctx context.Context, m *daemon.Mount, f figures) (err error) {
			f[rate], err = readTogether(ctx, m, readers, apart)
			return err
		})
	}
	return []contest{{what: "first opens", contenders: opening, rounds: 2 * b.rounds, rows: func(r results) []row {
		return []row{
			over(fmt.Sprintf("%d samples: first open after mount, longer with a cache by", b.planned), r, 0),
			over("    first open after a jump to epoch 37", r, jump),
		}
	}}, {what: "readers", contenders: []contender{together(0), together(10)}, rows: func(r results) []row {
		return []row{r.ratio("    8 readers in 8 epochs / 8 readers in one", rate, 1, 0).atLeast(0.95)}
	}}}, nil
}

// readTogether reads some batches with one reader per shard, each reader apart epochs after
// the previous one, and returns images per second.
func readTogether(ctx context.Context, m *daemon.Mount, readers, apart int) (float64, error) {
	const each = 20
	all, err := readersOf(m, readers)
	if err != nil {
		return 0, err
	}
	for i, r := range all {
		r.Next = i * apart * r.Batches
	}
	took, err := readAtOnce(ctx, all, func(batches int, _ time.Duration) bool { return batches >= each })
	return float64(readers*each*batchSize) / took.Seconds(), err
}
