package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"

	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/throughput"
)

// finishedBatches compares reading a finished batch with reading the same bytes from a file in
// memory, by the command that does so for users.
func finishedBatches(_ context.Context, b *bench) ([]contest, error) {
	const wanted = 0.95
	mapped, read, reads := figure{"mapped", "x", 1}, figure{"read", "x", 1}, figure{"reads", "", 1}
	args := append([]string{"bench", "--json", "--rounds", "1", "--batches", "1", "--read-path", "passthrough"}, warm()...)
	asked := ready(func(ctx context.Context) (figures, error) {
		out, err := b.command(ctx, append(args, b.photos.Root())...)
		if err != nil {
			return nil, err
		}
		var found struct {
			Mapped float64 `json:"finished_mapped_ratio"`
			Read   float64 `json:"finished_read_ratio"`
			Reads  float64 `json:"daemon_reads"`
		}
		err = json.Unmarshal(out, &found)
		return figures{mapped: found.Mapped, read: found.Read, reads: found.Reads}, err
	})
	return []contest{{what: "batchfs bench", contenders: []contender{asked}, rounds: 3 * b.rounds, rows: func(r results) []row {
		return []row{
			r.row("finished batch, read into a reused buffer / a file in memory", read, 0).atLeast(wanted),
			r.row("finished batch, mmap / a file in memory", mapped, 0).atLeast(wanted),
			r.row("    READ requests that the daemon saw", reads, 0).atMost(0), // passthrough should cause none
		}
	}}}, nil
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
	own, crops = shuffled(batchSize, ownSize...), shuffled(batchSize, trainingCrop...)
	whole      = shuffled(batchSize, "--resize", "not-smaller", "--size", "224x224")
	half       = slices.Concat(crops, asHalf)
	large      = shuffled(8, ownSize...) // batches of the usual number of bytes
	byRead     = throughput.Reading(0, true)
)

// The ways of the scenarios epoch, transforms, png and packed/epoch.
var (
	epochs = []way{
		{"JPEG in its own size: one epoch, mapped / C", photos, 1.7, own, throughput.Mapped, false},
		{"    without entry points / C", photos, 1.7, slices.Concat(own, withoutEntries), throughput.Mapped, false},
		{"JPEG in its own size: one epoch, by read / C", photos, 1.5, own, byRead, false},
		{"    without entry points / C", photos, 1.5, slices.Concat(own, withoutEntries), byRead, false},
	}
	transforms = []way{
		{"JPEG, random-resized-crop 224, flip, uint8 NHWC: one epoch / C", photos, 2.8, crops, throughput.Mapped, false},
		{"    without entry points / C", photos, 2.2, slices.Concat(crops, withoutEntries), throughput.Mapped, false},
		{"    as float16 NCHW, normalised / C", photos, 2.5, half, throughput.Mapped, false},
		{"    as float16 NCHW, without entry points / C", photos, 2.0, slices.Concat(half, withoutEntries), throughput.Mapped, false},
		{"JPEG, not-smaller 224: one epoch / C", photos, 1.6, whole, throughput.Mapped, false},
		{"    without entry points / C", photos, 1.6, slices.Concat(whole, withoutEntries), throughput.Mapped, false},
	}
	cityscapeEpochs = []way{
		{"PNG 2048x1024 in its own size: one epoch, mapped / C", cityscapes, 2.3, large, throughput.Mapped, false},
	}
	packedEpochs = []way{
		{"JPEG, random-resized-crop 224, flip, cached and packed: one epoch, mapped / C", photos, 4.5, crops, throughput.Mapped, true},
		{"JPEG in its own size, cached and packed: one epoch, mapped / C", photos, 3.6, own, throughput.Mapped, true},
		{"PNG photos in their own size, cached and packed: one epoch, mapped / C", stills, 12, own, throughput.Mapped, true},
		{"PNG 2048x1024 in its own size, cached and packed: one epoch, mapped / C", cityscapes, 13, large, throughput.Mapped, true},
	}
)

// againstC compares epochs with C, which takes two turns in each round; those of packed samples
// also with those of encoded ones in the same memory.
func againstC(ways []way) func(context.Context, *bench) ([]contest, error) {
	return func(ctx context.Context, b *bench) (list []contest, err error) {
		for _, w := range ways {
			p := w.set(b)
			c := b.c(runtime.NumCPU(), p.files)
			keeping := func(form string) contender {
				return b.training(mount{dataset: p.Root(), flags: kept(p, form, w.flags), trained: secondEpoch(ctx)})
			}
			sides := []contender{c, b.training(mount{dataset: p.Root(), flags: warm(w.flags), read: w.read}), c}
			if w.packed {
				sides = []contender{c, keeping("packed"), c, keeping("encoded")}
			}
			list = append(list, contest{what: w.what, contenders: sides, rows: func(r results) []row {
				ceiling := r.of(rate, 0).with(r.of(rate, 2), func(x, y float64) float64 { return (x + y) / 2 })
				rows := []row{ratio(w.what, rate.unit, r.of(rate, 1), ceiling).in("C").atLeast(w.wanted)}
				if w.packed {
					rows = append(rows, r.ratio("    / cached and encoded", rate, 1, 3),
						r.ratio("    processor time of the mount / cached and encoded", cost, 1, 3))
				}
				return rows
			}})
		}
		return list, nil
	}
}

// scaling compares what a second core gains batchfs with what it gains C. The reader runs
// on the same cores.
func scaling(_ context.Context, b *bench) ([]contest, error) {
	const what = "two cores / one, over C's own scaling"
	cpus, err := cores()
	if err != nil || len(cpus) < 2 {
		return []contest{skipped("there is one core", what)}, err
	}
	var sides []contender // C and batchfs on one core, then both on two
	for n := 1; n <= 2; n++ {
		mounted := b.training(mount{dataset: b.photos.Root(), flags: warm(own)})
		sides = append(sides, b.c(n, b.photos.files).on(cpus[:n]), mounted.on(cpus[:n]))
	}
	return []contest{{what: "one core and two", contenders: sides, rows: func(r results) []row {
		gain := func(i, j int) series { return r.of(rate, i).over(r.of(rate, j)) }
		return []row{ratio(what, "for C", gain(3, 1), gain(2, 0)).atLeast(0.95)}
	}}}, nil
}

// firstBatch compares the time of the first batch after a mount with decoding the same
// files on all cores, also in a new process.
func firstBatch(_ context.Context, b *bench) ([]contest, error) {
	files := b.photos.some(batchSize) // the first batch, since the order is not shuffled
	first := b.fresh(b.photos.Root(), warm([]string{"--batch-size", strconv.Itoa(batchSize)}), openFirst)
	sides := []contender{first, b.c(runtime.NumCPU(), files)}
	return []contest{{what: "first batch", contenders: sides, rounds: 3 * b.rounds, rows: func(r results) []row {
		decoded := r.of(rate, 1).each(func(rate float64) float64 { return 1e3 * float64(len(files)) / rate })
		const what = "open of the first batch after mount / decoding it on all cores"
		return []row{ratio(what, "ms", r.of(opened, 0), decoded).atMost(1.5)}
	}}}, nil
}

// memoryByWorkers reads an epoch with increasing numbers of workers and reports the
// daemon's peak memory.
func memoryByWorkers(_ context.Context, b *bench) ([]contest, error) {
	batch := figure{"size of a batch", "MiB", peak.scale}
	var sides []contender
	for _, workers := range []string{"1", "2", "8", "32"} {
		flags := warm([]string{"--batch-size", strconv.Itoa(batchSize), "--workers", workers})
		sides = append(sides, b.fresh(b.photos.Root(), flags, func(ctx context.Context, m *daemon.Mount, f figures) error {
			st, err := os.Stat(m.Batch(0, 0, 0))
			if err != nil {
				return err
			}
			f[batch] = float64(st.Size())
			return oneEpoch(ctx, m, f)
		}))
	}
	return []contest{{what: "an epoch with ever more workers", contenders: sides, rounds: 1, rows: func(r results) []row {
		high, low := r.of(peak, 0), r.of(peak, 0)
		for i := range sides {
			high, low = high.most(r.of(peak, i)), low.least(r.of(peak, i))
		}
		const depth, streams, open, spare = 2, 1, 1, 128
		bound := r.of(batch, 0).each(func(mib float64) float64 { return (depth*streams+open+streams)*mib + spare })
		return []row{
			ratio("peak memory with 1, 2, 8, 32 workers: most / least", "MiB", high, low).atMost(1.10),
			ratio("    most / (depth x streams + open + 1 per stream) x batch + 128 MiB", "MiB", high, bound).atMost(1),
		}
	}}}, nil
}

// cachedShare is the part of a dataset's encoded bytes that the cache has room for, where rivals
// have the same amount of memory.
const cachedShare = 0.3

// constantHits shows that the constant cache hits equally often in every batch and that
// CoorDL's static cache and ristretto's TinyLFU do not, with the batch size typical for ImageNet.
func constantHits(_ context.Context, b *bench) ([]contest, error) {
	const batch = 256
	total := b.photos.Report.Bytes
	size := int64(cachedShare * float64(total))
	var sides []contender
	for _, policy := range []string{"constant", "static", "tinylfu"} {
		cache := []string{"--cache-policy", policy, "--cache-size", fmt.Sprint(size)}
		flags := slices.Concat(shuffled(batch, trainingCrop...), cache)
		sides = append(sides, b.fresh(b.photos.Root(), flags, func(ctx context.Context, m *daemon.Mount, f figures) error {
			if err := readEpochs(ctx, m, 4, throughput.Mapped); err != nil {
				return err
			}
			return spreadOf(m, batch, f)
		}))
	}
	return []contest{{what: "caches", contenders: sides, rounds: 1, rows: func(r results) []row {
		const what = "JPEG, batches of 256, 30 % cached: "
		share, ratio := float64(size)/float64(total), r.of(hitRatio, 0).median()
		off := measured(what+"hit ratio, off cache / dataset size by", "points", numbers(100*math.Abs(ratio-share)))
		return []row{
			off.atMost(1).noted("%.4f, not %.4f", ratio, share),
			r.row(what+"standard deviation of hits a batch", hitsDeviation, 0).atMost(0.5).noted("%s", r.spread(0)),
			r.row(what+"variation of samples loaded a batch", samplesVariation, 0).atMost(0.01),
			r.row(what+"the same with a static cache (CoorDL)", samplesVariation, 1).noted("%s", r.spread(1)),
			r.row(what+"the same with TinyLFU (ristretto)", samplesVariation, 2).noted("%s", r.spread(2)),
		}
	}}}, nil
}

// uncached compares the processor time per image of a cache of size 0 and of no cache.
func uncached(_ context.Context, b *bench) ([]contest, error) {
	var sides []contender
	for _, none := range [][]string{{"--cache-size", "0"}, {"--cache-policy", "none"}} {
		flags := slices.Concat(crops, []string{"--io", "buffered"}, none)
		sides = append(sides, b.training(mount{dataset: b.photos.Root(), flags: flags}))
	}
	return []contest{{what: "processor time", contenders: sides, rounds: 4 * b.rounds, rows: func(r results) []row {
		return []row{r.ratio("processor time an image, --cache-size 0 / no cache", cost, 0, 1).atMost(1.01)}
	}}}, nil
}
