package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/throughput"
)

// This file has the scenarios of `make bench` that mount datasets whose files are in the page
// cache.

// finishedBatches compares reading a finished batch with reading the same bytes from a file in
// memory, with the command that users have for that.
func finishedBatches(b *bench) {
	const wanted = 0.95
	mapped, read, reads := figure{"mapped", "x", 1}, figure{"read", "x", 1}, figure{"reads", "", 1}
	args := append([]string{"bench", "--json", "--rounds", "1", "--batches", "1", "--read-path", "passthrough"}, warm()...)
	args = append(args, b.photos().Root())
	r := b.hold("batchfs bench", 3*b.rounds, ready(func() figures {
		var found struct {
			Mapped float64 `json:"finished_mapped_ratio"`
			Read   float64 `json:"finished_read_ratio"`
			Reads  float64 `json:"daemon_reads"`
		}
		check(json.Unmarshal(b.command(args...), &found))
		return figures{mapped: found.Mapped, read: found.Read, reads: found.Reads}
	}))
	b.print(
		r.row("finished batch, read into a reused buffer / a file in memory", read, 0).atLeast(wanted),
		r.row("finished batch, mmap / a file in memory", mapped, 0).atLeast(wanted),
		r.row("    READ requests that the daemon saw", reads, 0).atMost(0), // passthrough should cause none
	)
}

// A way is one way to read epochs of pictures, with its goal as a multiple of C.
type way struct {
	what   string
	set    func(*bench) *pictures
	wanted float64
	flags  []string
	read   throughput.Reader
	packed bool // the mount keeps all of them, packed; else nothing
}

var (
	photos     = (*bench).photos
	cityscapes = (*bench).cityscapes

	whole = shuffled(batchSize, "--resize", "not-smaller", "--size", "224x224")
	half  = slices.Concat(crops, asHalf)
)

// The ways of the scenarios epoch, transforms, png and packed/epoch.
var (
	epochs = []way{
		{"JPEG in its own size: one epoch, mapped / C", photos, 1.7, own, nil, false},
		{"    without entry points / C", photos, 1.7, slices.Concat(own, withoutEntries), nil, false},
		{"JPEG in its own size: one epoch, by read / C", photos, 1.5, own, byRead, false},
		{"    without entry points / C", photos, 1.5, slices.Concat(own, withoutEntries), byRead, false},
	}
	transforms = []way{
		{"JPEG, random-resized-crop 224, flip, uint8 NHWC: one epoch / C", photos, 2.8, crops, nil, false},
		{"    without entry points / C", photos, 2.2, slices.Concat(crops, withoutEntries), nil, false},
		{"    as float16 NCHW, normalised / C", photos, 2.5, half, nil, false},
		{"    as float16 NCHW, without entry points / C", photos, 2.0, slices.Concat(half, withoutEntries), nil, false},
		{"JPEG, not-smaller 224: one epoch / C", photos, 1.6, whole, nil, false},
		{"    without entry points / C", photos, 1.6, slices.Concat(whole, withoutEntries), nil, false},
	}
	cityscapeEpochs = []way{
		{"PNG 2048x1024 in its own size: one epoch, mapped / C", cityscapes, 2.3, large, nil, false},
	}
	packedEpochs = []way{
		{"JPEG, random-resized-crop 224, flip, cached and packed: one epoch, mapped / C", photos, 4.5, crops, nil, true},
		{"JPEG in its own size, cached and packed: one epoch, mapped / C", photos, 3.6, own, nil, true},
		{"PNG photos in their own size, cached and packed: one epoch, mapped / C", (*bench).stills, 12, own, nil, true},
		{"PNG 2048x1024 in its own size, cached and packed: one epoch, mapped / C", cityscapes, 13, large, nil, true},
	}
)

// againstC compares epochs with C, which takes two turns in each round. Epochs of packed samples,
// all of which are packed in the second epoch at the latest, are also compared with epochs of
// encoded samples in the same memory.
func againstC(ways []way) func(*bench) {
	return func(b *bench) {
		for _, w := range ways {
			p := w.set(b)
			c := b.c(runtime.NumCPU(), p.files)
			keeping := func(form string) contender {
				return b.training(mount{dataset: p.Root(), flags: kept(p, form, w.flags), warmup: 2})
			}
			sides := []contender{c, b.training(mount{dataset: p.Root(), flags: warm(w.flags), read: w.read}), c}
			if w.packed {
				sides = []contender{c, keeping("packed"), c, keeping("encoded")}
			}
			r := b.hold(w.what, 0, sides...)
			ceiling := r.of(rate, 0).with(r.of(rate, 2), func(x, y float64) float64 { return (x + y) / 2 })
			b.print(ratio(w.what, rate.unit, r.of(rate, 1), ceiling).in("C").atLeast(w.wanted))
			if w.packed {
				b.print(
					r.ratio("    / cached and encoded", rate, 1, 3),
					r.ratio("    processor time of the mount / cached and encoded", cost, 1, 3),
				)
			}
		}
	}
}

// packing compares first epochs of mounts that pack the samples they keep with first epochs of
// mounts that do not pack.
func packing(b *bench) {
	// How long the first epoch, and the first two, take, and how much processor time the mount.
	first, two := figure{"first", "s", 1}, figure{"two", "s", 1}
	firstCost, twoCost := figure{"first cost", "s", 1}, figure{"two cost", "s", 1}
	side := func(form string) contender {
		return b.fresh(b.photos().Root(), kept(b.photos(), form, crops), func(m *daemon.Mount, f figures) {
			t := must(throughput.NewTraining(m, 0, throughput.Mapped))
			began := time.Now()
			for _, until := range [][2]figure{{first, firstCost}, {two, twoCost}} {
				must(t.Take(b.ctx, t.Batches))
				f[until[0]], f[until[1]] = time.Since(began).Seconds(), clock(m.Cmd.Process.Pid)
			}
		}).before(func() {
			// The entry points that the first epoch of a dataset finds are found anew.
			for _, entries := range must(filepath.Glob(filepath.Join(b.cache(), "batchfs", "*.entries"))) {
				check(os.Remove(entries))
			}
		})
	}
	r := b.hold("packing", 0, side("packed"), side("encoded"))
	const what = "JPEG, random-resized-crop 224, flip, packed / encoded: "
	b.print(
		r.ratio(what+"time of the first epoch", first, 0, 1).atMost(1.25),
		r.ratio("    processor time of the mount", firstCost, 0, 1),
		r.ratio(what+"time of the first two", two, 0, 1).atMost(1),
		r.ratio("    processor time of the mount", twoCost, 0, 1),
	)
}

// scaling compares what a second core gains batchfs with what it gains C. The reader runs
// on the same cores.
func scaling(b *bench) {
	const what = "two cores / one, over C's own scaling"
	cpus := cores()
	if len(cpus) < 2 {
		b.print(skipped("there is one core", what))
		return
	}
	var sides []contender // C and batchfs on one core, then both on two
	for n := 1; n <= 2; n++ {
		mounted := b.training(mount{dataset: b.photos().Root(), flags: warm(own)})
		sides = append(sides, b.c(n, b.photos().files).on(cpus[:n]), mounted.on(cpus[:n]))
	}
	r := b.hold("one core and two", 0, sides...)
	gain := func(i, j int) series { return r.of(rate, i).over(r.of(rate, j)) }
	b.print(ratio(what, "for C", gain(3, 1), gain(2, 0)).atLeast(0.95))
}

// firstBatch compares the time of the first batch after a mount with decoding the same
// files on all cores, also in a new process.
func firstBatch(b *bench) {
	files := b.photos().some(batchSize) // the first batch, since the order is not shuffled
	first := b.fresh(b.photos().Root(), warm([]string{"--batch-size", strconv.Itoa(batchSize)}), openFirst)
	r := b.hold("first batch", 3*b.rounds, first, b.c(runtime.NumCPU(), files))
	decoded := r.of(rate, 1).each(func(rate float64) float64 { return 1e3 * float64(len(files)) / rate })
	const what = "open of the first batch after mount / decoding it on all cores"
	b.print(ratio(what, "ms", r.of(opened, 0), decoded).atMost(1.5))
}

// memoryByWorkers reads an epoch with increasing numbers of workers and reports the
// daemon's peak memory.
func memoryByWorkers(b *bench) {
	batch := figure{"size of a batch", "MiB", peak.scale}
	var sides []contender
	for _, workers := range []string{"1", "2", "8", "32"} {
		flags := warm([]string{"--batch-size", strconv.Itoa(batchSize), "--workers", workers})
		sides = append(sides, b.fresh(b.photos().Root(), flags, func(m *daemon.Mount, f figures) {
			f[batch] = float64(must(os.Stat(m.Batch(0, 0, 0))).Size())
			b.oneEpoch(m, f)
		}))
	}
	r := b.hold("an epoch with ever more workers", 1, sides...)
	high, low := r.of(peak, 0), r.of(peak, 0)
	for i := range sides {
		high, low = high.most(r.of(peak, i)), low.least(r.of(peak, i))
	}
	const depth, streams, open, spare = 2, 1, 1, 128
	bound := r.of(batch, 0).each(func(mib float64) float64 { return (depth*streams+open+streams)*mib + spare })
	b.print(
		ratio("peak memory with 1, 2, 8, 32 workers: most / least", "MiB", high, low).atMost(1.10),
		ratio("    most / (depth x streams + open + 1 per stream) x batch + 128 MiB", "MiB", high, bound).atMost(1),
	)
}

// imageNet is the number of training images of ImageNet.
const imageNet = 1_281_167

// manifest mounts a dataset of ImageNet's size from its index.
func manifest(b *bench) {
	stat := figure{"stat", "ms", 1e3}
	var sides []contender
	for _, n := range []int{1000, imageNet} {
		path := filepath.Join(b.work, fmt.Sprintf("imagenet-%d.csv", n))
		// The manifest has all that an index holds, so that no file has to exist for a
		// scan. Names are like ImageNet's.
		b.manifestOf(path, "path,label,height,width,format", n, func(i int) string {
			class := i / 1300
			folder := fmt.Sprintf("n%08d", 1440764+class*7)
			return fmt.Sprintf("%s/%s_%d.JPEG,%d,%d,%d,jpeg", folder, folder, i%1300*11, class, 375+i%7, 500-i%11)
		})
		flags := warm(shuffled(256, "--shards", "2"))
		sides = append(sides, b.fresh(path, flags, func(m *daemon.Mount, f figures) {
			batches := must(throughput.NewTraining(m, 0, nil)).Batches
			var times []float64
			random := rand.New(rand.NewPCG(1, 2))
			for range 1000 {
				began := time.Now()
				must(os.Stat(m.Batch(random.IntN(2), random.IntN(100), random.IntN(batches))))
				times = append(times, time.Since(began).Seconds())
			}
			f[stat] = numbers(times...).median()
		}))
	}
	r := b.hold("1,281,167 rows", 0, sides...)
	perRow := r.of(peak, 1).minus(r.of(peak, 0)).times(1 << 20 / float64(imageNet))
	b.print(
		r.row("1,281,167 rows: mount from the index", mounted, 1).atMost(2),
		r.row("    stat of a random batch, median of 1,000", stat, 1).atMost(1),
		measured("    peak memory a row, over a mount of 1,000 rows", "bytes", perRow).atMost(200),
	)
}

// cachedShare is the part of a dataset's encoded bytes that the cache has room for, where rivals
// have the same amount of memory.
const cachedShare = 0.3

// constantHits shows that the constant cache hits equally often in every batch and that
// CoorDL's static cache and ristretto's TinyLFU do not, with the batch size typical for ImageNet.
// Samples stay encoded: packed ones are larger, so that fewer fit, and how many are packed changes
// from one epoch to the next.
func constantHits(b *bench) {
	const batch = 256
	total := b.photos().Report.Bytes
	size := int64(cachedShare * float64(total))
	var sides []contender
	for _, policy := range []string{"constant", "static", "tinylfu"} {
		cache := []string{"--cache-policy", policy, "--cache-size", fmt.Sprint(size), "--cache-form", "encoded"}
		flags := slices.Concat(shuffled(batch, trainingCrop...), cache)
		sides = append(sides, b.fresh(b.photos().Root(), flags, func(m *daemon.Mount, f figures) {
			b.readEpochs(m, 4, throughput.Mapped)
			check(spreadOf(m, batch, f))
		}))
	}
	r := b.hold("caches", 1, sides...)
	const what = "JPEG, batches of 256, 30 % cached: "
	share, ratio := float64(size)/float64(total), r.of(hitRatio, 0).median()
	off := measured(what+"hit ratio, off cache / dataset size by", "points", numbers(100*math.Abs(ratio-share)))
	b.print(
		off.atMost(1).noted("%.4f, not %.4f", ratio, share),
		r.row(what+"standard deviation of hits a batch", hitsDeviation, 0).atMost(0.5).noted("%s", r.spread(0)),
		r.row(what+"variation of samples loaded a batch", samplesVariation, 0).atMost(0.01),
		r.row(what+"the same with a static cache (CoorDL)", samplesVariation, 1).noted("%s", r.spread(1)),
		r.row(what+"the same with TinyLFU (ristretto)", samplesVariation, 2).noted("%s", r.spread(2)),
	)
}

// uncached compares the processor time per image with a cache of size 0 and without a cache.
func uncached(b *bench) {
	var sides []contender
	for _, none := range [][]string{{"--cache-size", "0"}, {"--cache-policy", "none"}} {
		flags := slices.Concat(crops, []string{"--io", "buffered"}, none)
		sides = append(sides, b.training(mount{dataset: b.photos().Root(), flags: flags}))
	}
	r := b.hold("processor time", 4*b.rounds, sides...)
	b.print(r.ratio("processor time an image, --cache-size 0 / no cache", cost, 0, 1).atMost(1.01))
}

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
	variation := func(mean, deviation float64) float64 {
		if mean == 0 {
			return 0
		}
		return deviation / mean
	}
	samples := float64(batch) - perBatch.Mean
	f[hitRatio], f[hitsMean], f[hitsDeviation] = hits/asked, perBatch.Mean, perBatch.StdDev
	f[samplesMean], f[samplesVariation] = samples, variation(samples, perBatch.StdDev)
	f[bytesMean], f[bytesVariation] = bytes.Mean, variation(bytes.Mean, bytes.StdDev)
	return nil
}

// pooled is the distribution over n batches like d and m batches like e.
func pooled(d engine.Distribution, n float64, e engine.Distribution, m float64) engine.Distribution {
	mean := (n*d.Mean + m*e.Mean) / max(n+m, 1)
	square := (n*(d.StdDev*d.StdDev+d.Mean*d.Mean) + m*(e.StdDev*e.StdDev+e.Mean*e.Mean)) / max(n+m, 1)
	return engine.Distribution{Mean: mean, StdDev: math.Sqrt(max(0, square-mean*mean))}
}
