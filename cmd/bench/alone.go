package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/throughput"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// This file measures parts of batchfs within this process, without a mount.

const maxPixels = 1 << 28

// crop224 is trainingCrop as an option.
var crop224 = resample.Options{
	Mode: resample.RandomResizedCrop, Height: 224, Width: 224,
	CropArea: resample.DefaultCropArea, CropRatio: resample.DefaultCropRatio, Flip: 0.5,
}

// An encoded is a file in memory.
type encoded struct {
	data []byte
	head decode.Header
}

func load(files []string) (all []encoded, err error) {
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		head, err := decode.ReadHeader(data, true)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, encoded{data, head})
	}
	return all, nil
}

// into is where all of the image is decoded: at the start of pix, which grows if it is too small.
func (e encoded) into(pix *[]byte) decode.Image {
	height, width := e.head.Size(false)
	if n := height * width * 3; n > len(*pix) {
		*pix = make([]byte, n)
	}
	return decode.Image{Pix: *pix, Stride: width * 3, Height: height, Width: width}
}

// A decodingWay is a kind of work of the decoder alone.
type decodingWay struct {
	name  string
	mode  resample.Mode
	rule  decode.EntryRule
	pairs bool    // two images at once
	least float64 // the goal, as a multiple of what C does
}

// Entry points are of no use to progressive JPEGs, which must be read as a whole for any part.
var (
	baselineWays = []decodingWay{
		{"in full / C", resample.None, decode.EntryOff, false, 2.2},
		{"in full, in pairs / C", resample.None, decode.EntryOff, true, 2.5},
		{"regions of random-resized-crop / C", resample.RandomResizedCrop, decode.EntryOff, false, 2.8},
		{"the same in pairs / C", resample.RandomResizedCrop, decode.EntryOff, true, 3.2},
		{"the same with an entry point a row / C", resample.RandomResizedCrop, decode.EntryRows, false, 4},
	}
	progressiveWays = []decodingWay{
		{"in full / C", resample.None, decode.EntryOff, false, 2.2},
		{"regions of random-resized-crop / C", resample.RandomResizedCrop, decode.EntryOff, false, 2.2},
	}
)

// decoderAlone decodes JPEGs from memory on one core, in full and the regions of random crops,
// with every kernel of the decoder, and compares with C on the same core: photos of gen, and
// real ones if scripts/photos.sh could make some.
func decoderAlone(_ context.Context, b *bench) (list []contest, err error) {
	cpus, err := cores()
	if err != nil {
		return nil, err
	}
	for _, set := range []struct {
		name, folder string
		ways         []decodingWay
	}{
		{"photos of gen", "", baselineWays},
		{"real photos, quality 90", "90", baselineWays},
		{"real photos, quality 97", "97", baselineWays},
		{"progressive real photos", "progressive", progressiveWays},
	} {
		files := b.photos.some(128)
		if set.folder != "" {
			if files, err = filepath.Glob(filepath.Join(b.realPhotos, set.folder, "*.jpg")); err != nil {
				return nil, err
			}
		}
		what := "decoder alone, one core: " + set.name
		if len(files) == 0 {
			list = append(list, skipped("make bench could not install the packages that have them", what))
			continue
		}
		kernels := decode.Kernels()
		sides := []contender{b.c(1, files).on(cpus[:1])}
		for _, way := range set.ways {
			for _, k := range kernels {
				sides = append(sides, decoding(files, way, k).on(cpus[:1]))
			}
		}
		list = append(list, contest{what: what, contenders: sides, rows: func(r results) (rows []row) {
			name := what + ", "
			for i, way := range set.ways {
				var fastest series
				var notes []string
				for n, k := range kernels {
					fastest = r.of(rate, 1+i*len(kernels)+n).over(r.of(rate, 0))
					notes = append(notes, fmt.Sprintf("%s %.2f", k, fastest.median()))
				}
				rows = append(rows, measured(name+way.name, "C", fastest).atLeast(way.least).noted("%s", strings.Join(notes, ", ")))
				name = "    "
			}
			return rows
		}})
	}
	return list, nil
}

// decoding decodes one region of each file per call, or of two, in four epochs.
func decoding(files []string, way decodingWay, k decode.Kernel) contender {
	return contender{start: func(context.Context) (turn, error) {
		images, err := load(files)
		if err != nil {
			return nil, err
		}
		o := decode.Options{MaxPixels: maxPixels, Kernel: k}
		decoders := [2]*decode.Decoder{decode.NewDecoder(o), decode.NewDecoder(o)}
		var pix [2][]byte
		var tasks []decode.Task
		entries := make([][]decode.EntryPoint, len(files))
		for i, image := range images {
			whole := image.into(&pix[0])
			image.into(&pix[1])
			decoders[0].SetEntryPoints(way.rule, nil)
			if err := decoders[0].Decode(whole, image.data, image.head); err != nil {
				return nil, fmt.Errorf("%s: %w", files[i], err)
			}
			made, _ := decoders[0].TakeEntryPoints()
			entries[i] = slices.Clone(made)
		}
		crop := crop224
		crop.Mode = way.mode
		for epoch := range 4 {
			for i, image := range images {
				y, x, height, width := crop.Choose(epoch, int64(i), image.head.Height, image.head.Width).Source()
				tasks = append(tasks, decode.Task{
					To: decode.Image{Stride: width * 3, Height: height, Width: width}, Data: image.data, Header: image.head,
					Region: decode.Region{X: x, Y: y, W: width, H: height}, Scale: 1,
				})
			}
		}
		return perSecond(rate, int64(len(tasks)), func(ctx context.Context) error {
			for i := 0; i < len(tasks) && ctx.Err() == nil; i++ {
				var err error
				if t := tasks[i]; way.pairs && i%2 == 0 {
					pair := [2]decode.Task{t, tasks[i+1]}
					pair[0].To.Pix, pair[1].To.Pix = pix[0], pix[1]
					errs := decode.DecodePair(&decoders, &pair)
					err = errors.Join(errs[:]...)
					i++
				} else {
					if at := entries[i%len(files)]; at != nil {
						decoders[0].SetEntryPoints(way.rule, at)
					}
					t.To.Pix = pix[0]
					err = decoders[0].DecodeRegion(t.To, t.Data, t.Header, t.Region, t.Scale)
				}
				if err != nil {
					return err
				}
			}
			return ctx.Err()
		}), nil
	}}
}

// resizeAlone resizes decoded photos to 224x224 on one core, into their place in a batch,
// and compares the speed with that of decoding them on the same core.
func resizeAlone(_ context.Context, b *bench) ([]contest, error) {
	cpus, err := cores()
	if err != nil {
		return nil, err
	}
	files := b.photos.some(512)
	sides := []contender{resizing(files[:min(16, len(files))]).on(cpus[:1]), b.c(1, files).on(cpus[:1])}
	return []contest{{what: "resize", contenders: sides, rounds: 3 * b.rounds, rows: func(r results) []row {
		return []row{r.ratio("resize of photos to 224x224 / decoding them, one core", rate, 0, 1).atLeast(3.5)}
	}}}, nil
}

// resizing does one worker's part of making batches of crops, without the decoding.
func resizing(files []string) contender {
	return contender{start: func(context.Context) (turn, error) {
		const size, sample, n = 224, 224 * 224 * 3, 2000
		images, err := load(files)
		if err != nil {
			return nil, err
		}
		spec, err := layout.NewSpec(batchSize, size, size, 3, layout.Uint8, layout.NHWC)
		if err != nil {
			return nil, err
		}
		converter, err := layout.NewConverter(layout.Uint8, 3, layout.Normalization{})
		if err != nil {
			return nil, err
		}
		decoder := decode.NewDecoder(decode.Options{MaxPixels: maxPixels})
		defer decoder.Close()
		var sources []resample.Image
		var transforms []resample.Transform
		scratch := 0
		for i, image := range images {
			var pix []byte
			to := image.into(&pix)
			if err := decoder.Decode(to, image.data, image.head); err != nil {
				return nil, fmt.Errorf("%s: %w", files[i], err)
			}
			t := resample.Options{Mode: resample.Stretch, Height: size, Width: size}.Choose(0, int64(i), to.Height, to.Width)
			source := resample.Image{Pix: pix, Stride: to.Stride, Height: to.Height, Width: to.Width, Channels: 3}
			sources = append(sources, source)
			transforms, scratch = append(transforms, t), max(scratch, resample.ScratchBytes(t, 3))
		}
		writer, batch, memory := layout.NewWriter(converter, 0), make([]byte, batchSize*sample), make([]byte, scratch)
		return perSecond(rate, n, func(context.Context) error {
			for i := range n {
				at := i % len(sources)
				writer.Begin(batch[i%batchSize*sample:][:sample], spec, size, size, i%2 == 1, 0)
				if err := resample.Resize(writer, sources[at], transforms[at], memory, resample.Fastest); err != nil {
					return err
				}
				writer.End()
			}
			return nil
		}), nil
	}}
}

// allocations counts the engine's Go heap allocations per image. It runs the engine in this
// process because a daemon's heap cannot be inspected.
//
// A batch makes a few allocations whatever its number of images. Epochs with small and with
// large batches separate those from the allocations per image.
func allocations(_ context.Context, b *bench) ([]contest, error) {
	const what = "heap allocations an image, random-resized-crop 224"
	if !withCgo() {
		return []contest{skipped("this was built without cgo: Go's decoders allocate", what)}, nil
	}
	objects, batches := figure{"objects", "objects", 1}, figure{"batches", "", 1}
	side := func(batch int) contender {
		return ready(func(ctx context.Context) (figures, error) {
			made, n, err := allocationsOf(ctx, b.photos.Dataset, batch)
			return figures{objects: made, batches: n}, err
		})
	}
	sides := []contender{side(128), side(16)}
	return []contest{{what: "epochs of two batch sizes", contenders: sides, rows: func(r results) []row {
		few, many := r.of(objects, 0), r.of(objects, 1)
		perBatch := many.minus(few).over(r.of(batches, 1).minus(r.of(batches, 0)))
		inBatches := perBatch.with(r.of(batches, 1), func(each, n float64) float64 { return each * n })
		// What counts as 0: the runtime and the check for idle streams also allocate occasionally.
		const none = 0.05
		perImage := many.minus(inBatches).times(1 / float64(b.photos.images))
		return []row{measured(what, objects.unit, perImage).atMost(none).noted("and %v a batch", perBatch)}
	}}}, nil
}

func withCgo() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "CGO_ENABLED", Value: "1"})
}

// allocationsOf reads an epoch in the steady state and returns the number of allocated
// objects and of batches.
func allocationsOf(ctx context.Context, ds *dataset.Dataset, batch int) (objects, batches float64, err error) {
	e, err := engine.New(ds, engine.Options{
		Options: catalog.Options{
			Config: shard.Config{Shards: 1, BatchSize: batch, Shuffle: true, PadLastBatch: true}, Epochs: 4,
			Transform: crop224, Decoding: decode.Options{MaxPixels: maxPixels},
		},
		Workers: runtime.NumCPU(), BatchWorkers: 2, PrefetchDepth: 2, MemoryLimit: 2 << 30,
	})
	if err != nil {
		return 0, 0, err
	}
	defer e.Close()
	n := (ds.Len() + batch - 1) / batch
	var before, after runtime.MemStats
	for i := range 2 * n {
		if i == n { // only the second epoch counts
			runtime.ReadMemStats(&before)
		}
		f, err := e.Open(ctx, engine.Key{Epoch: i / n, Batch: i % n}, layout.NHWCForm)
		if err != nil {
			return 0, 0, err
		}
		throughput.Touch(f.Bytes())
		f.Close()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs - before.Mallocs), float64(n), nil
}
