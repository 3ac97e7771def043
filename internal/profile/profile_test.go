package profile

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/convert"
	"github.com/batchfs/batchfs/internal/gen"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/shard"
)

// photos makes a dataset and opens it.
func photos(t testing.TB, n int, format string) *dataset.Dataset {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "photos")
	if err := gen.Write(t.Context(), gen.Options{Dir: dir, Images: n, Kind: gen.Photo, Classes: 2, Format: format, Workers: 2}); err != nil {
		t.Fatal(err)
	}
	return open(t, dir)
}

// ramps makes a dataset of pictures with small files that are a hundred times as large when
// raw.
func ramps(t testing.TB, n, side int) *dataset.Dataset {
	t.Helper()
	dir := t.TempDir()
	img := image.NewRGBA(image.Rect(0, 0, side, side))
	for i := range img.Pix {
		img.Pix[i] = byte(i / (4 * side))
	}
	var file bytes.Buffer
	if err := png.Encode(&file, img); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.png", i)), file.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return open(t, dir)
}

func open(t testing.TB, dir string) *dataset.Dataset {
	t.Helper()
	ds, err := dataset.Open(t.Context(), dir, dataset.Options{Workers: 2, Prober: sample.Probe})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ds.Close() })
	return ds
}

func options(t testing.TB) Options {
	return Options{
		Engine: engine.Options{
			Options: catalog.Options{
				Config:   shard.Config{Shards: 1, BatchSize: 4, Shuffle: true, PadLastBatch: true, LastBatch: shard.Fill},
				Decoding: decode.Options{MaxPixels: 1 << 28}, Epochs: 1,
			},
			Workers: 4, BatchWorkers: 2, PrefetchDepth: 2, MemoryLimit: 256 << 20,
		},
		Storage: dataset.Storage{Direct: true},
		Work:    t.TempDir(), Least: 20 * time.Millisecond, Forms: []shard.Cost{shard.Raw},
	}
}

// empty fails the test if a directory is not empty.
func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestSlowStorageWantsEncoded: storage delivers 40 raw images per second and thousands of
// encoded ones, so encoded wins however slow the processor is.
func TestSlowStorageWantsEncoded(t *testing.T) {
	ds, o := ramps(t, 20, 128), options(t)
	o.Storage.MaxBandwidth = 2 << 20
	copied, figures := 0, 0
	count := func(calls *int) func(done, total int64) {
		return func(done, total int64) {
			if done > total || total < 1 {
				t.Errorf("%d of %d", done, total)
			}
			if done > 0 {
				*calls++
			}
		}
	}
	o.Copied, o.Measured = count(&copied), count(&figures)
	r, err := Run(t.Context(), ds, o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Shares.Raw > 0.35 || r.Shares.Raw+r.EncodedRatio != 1 || r.BestTenths.Raw > 0.35 {
		t.Errorf("raw ratio %v, of 11 %v", r.Shares.Raw, r.BestTenths.Raw)
	}
	if first := r.Steps[0]; first.Raw != 0.5 || first.Limit != Loading || first.To != 5 || first.From != 0 {
		t.Errorf("first step %+v", first)
	}
	if steps := len(r.Steps); steps < 3 || steps > 4 || copied != 20 || figures < 2*steps+2 {
		t.Errorf("%d steps, %d copies, %d figures", steps, copied, figures)
	}
	if r.Raw.Load < 2*r.Encoded.Load || r.Verified <= 0 || r.EncodedOnly <= 0 {
		t.Errorf("%+v", r)
	}
	empty(t, o.Work)
}

// TestFastStorageWantsRaw: with storage as fast as memory, decoding is the limit. Raw files
// are larger, but have a hundredth of the pixels.
func TestFastStorageWantsRaw(t *testing.T) {
	ds, o := ramps(t, 10, 1000), options(t)
	o.Storage.Direct = false
	o.Engine.CachePolicy, o.Engine.CacheSize, o.Samples = cache.Constant, 64<<20, ds.Len() // which holds everything
	o.Raw.Resize, o.Raw.Height, o.Raw.Width = resample.Stretch, 100, 100
	o.Engine.Transform = resample.Options{Mode: resample.Stretch, Height: 32, Width: 32}
	r, err := Run(t.Context(), ds, o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Shares.Raw < 0.7 || r.Encoded.Decode < 2*r.Raw.Decode || r.Raw.Bytes <= r.Encoded.Bytes {
		t.Errorf("raw ratio %v: %+v, %+v", r.Shares.Raw, r.Steps, r.Runs)
	}
	if first := r.Steps[0]; first.Limit != Decoding || first.From != 5 || first.To != 10 {
		t.Errorf("first step %+v", first)
	}
	if !slices.Contains(r.Notes, PageCache) || slices.Contains(r.Notes, RawSmaller) {
		t.Errorf("notes %v", r.Notes)
	}
	empty(t, o.Work)
}

// TestSmallRawNeedsNoSearch: downscaled raw images load and decode faster, so that no
// storage is too slow for them.
func TestSmallRawNeedsNoSearch(t *testing.T) {
	ds, o := ramps(t, 20, 128), options(t)
	o.Storage.MaxBandwidth = 100 << 10
	o.Raw.Resize, o.Raw.Height, o.Raw.Width = resample.NotSmaller, 4, 4
	o.Exhaustive = true
	r, err := Run(t.Context(), ds, o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Shares.Raw < 0.9 || !slices.Contains(r.Notes, RawSmaller) || len(r.Runs) < tenths+1 {
		t.Errorf("raw ratio %v, notes %v, %d runs", r.Shares.Raw, r.Notes, len(r.Runs))
	}
	empty(t, o.Work)
}

// TestAllCachedIsNotSmaller: if the cache holds everything, nothing has to be loaded, but
// raw images are not smaller.
func TestAllCachedIsNotSmaller(t *testing.T) {
	ds, o := ramps(t, 8, 64), options(t)
	o.Engine.CachePolicy, o.Engine.CacheSize, o.Samples = cache.Constant, 64<<20, ds.Len()
	r, err := Run(t.Context(), ds, o)
	if err != nil {
		t.Fatal(err)
	}
	if !math.IsInf(float64(r.Steps[0].Loading), 1) || r.Raw.Bytes <= r.Encoded.Bytes {
		t.Fatalf("this tests nothing: %+v", r)
	}
	if slices.Contains(r.Notes, RawSmaller) {
		t.Errorf("notes %v", r.Notes)
	}
}

// TestSmallSampleInTheCache: a cache that holds all samples given does not make raw images win,
// unless these are all there are. If the number of all is known, so is what the cache holds.
func TestSmallSampleInTheCache(t *testing.T) {
	ds := ramps(t, 20, 128)
	for samples, note := range map[int]bool{0: true, 20: false, 2000: false, 200_000: false} {
		o := options(t)
		o.Storage.MaxBandwidth = 2 << 20
		o.Engine.CachePolicy, o.Engine.CacheSize, o.Samples = cache.Constant, 32<<20, samples
		r, err := Run(t.Context(), ds, o)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(r.Notes, SmallDataset) != note || math.IsInf(float64(r.Steps[0].Loading), 1) != (samples == 20) {
			t.Errorf("of %d: notes %v, %+v", samples, r.Notes, r.Steps[0])
		}
		if samples != 20 && r.Shares.Raw > 0.35 {
			t.Errorf("of %d: raw ratio %v", samples, r.Shares.Raw)
		}
		for _, run := range r.Runs {
			if run.FirstEpoch <= 0 || run.Noise < 0 || samples == 0 && run.HitRatio > 0 {
				t.Errorf("of %d: %+v", samples, run)
			}
		}
	}
}

// TestNoiseDecidesNothing: a mix is the answer only if it was faster in all turns but one.
func TestNoiseDecidesNothing(t *testing.T) {
	m := model{load: costs{0.5, 0, 1}, decode: costs{1.5, 0, 0.5}, hits: func(convert.Shares) float64 { return 0 }}
	idle, err := engine.New(ramps(t, 4, 8), options(t).Engine)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	trial := func(raw float64, turns ...float64) Trial {
		return newTrial(convert.Shares{Raw: raw}, &reading{engine: idle, first: 1, turns: turns})
	}
	encoded := trial(0, 1, 1.1, 1, 1.2, 1)
	for _, c := range []struct {
		crossing Trial
		answer   float64
		notes    []Note
	}{
		{trial(0.5, 0.9, 1.15, 1.1, 1.1, 0.9), 0, []Note{WithinNoise}},
		{trial(0.5, 0.99, 1.09, 0.995, 1.195, 0.995), 0, []Note{WithinNoise}}, // less than a percent
		{trial(0.5, 0.98, 1.078, 0.98, 1.176, 0.98), 0, []Note{WithinNoise}},  // two percent, whenever it is measured
		{trial(0.5, 0.95, 1.045, 0.95, 1.14, 0.95), 0.5, []Note{}},
		{trial(0.5, 0.8, 0.7, 3, 0.8, 0.9), 0.5, []Note{Noisy}},
		{trial(0.5, 1.3, 1.4, 1.3, 1.5, 1.3), 0, []Note{OtherWins}},
	} {
		p := &profiler{result: Result{Crossing: convert.Shares{Raw: 0.5}, Runs: []Trial{encoded, c.crossing}}}
		p.decide(m)
		p.result.Notes = slices.DeleteFunc(p.result.Notes, func(n Note) bool { return n == Waiting })
		if p.result.AsItIs != (c.answer == 0) {
			t.Errorf("%v: best as it is: %v", c.crossing.turns, p.result.AsItIs)
		}
		if p.result.Shares.Raw != c.answer || !slices.Equal(p.result.Notes, c.notes) {
			t.Errorf("%v: %v raw, %v; want %v, %v", c.crossing.turns, p.result.Shares.Raw, p.result.Notes, c.answer, c.notes)
		}
	}
}

// TestEntryPoints: the pipeline that is measured uses entry points where the mount does, and knows
// them from the second epoch on; loading knows them from the beginning.
func TestEntryPoints(t *testing.T) {
	for _, rule := range []decode.EntryRule{decode.EntryRows, decode.EntryOff} {
		ds, o := photos(t, 20, "jpeg"), options(t)
		o.Engine.Entries, o.Engine.Decoding.Kernel, o.Engine.FullJPEGs = rule, decode.Portable, true
		o.Engine.Transform = resample.Options{Mode: resample.RandomResizedCrop, Height: 32, Width: 32, CropArea: [2]float64{0.08, 1}, CropRatio: [2]float64{0.75, 4.0 / 3}}
		p, done := prepared(t, ds, o)
		defer done()
		r, err := p.start(t.Context(), convert.Shares{Raw: 0.5}, 20, o.Storage, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer r.close()
		first := r.engine.Stats().JPEGs.Entries
		if err := r.measure(t.Context(), o.Least); err != nil {
			t.Fatal(err)
		}
		later := r.engine.Stats().JPEGs.Entries
		// What is read ahead of the next epoch may be decoded before its entry points are known.
		again := later.Made - first.Made
		if on := rule != decode.EntryOff; (first.Made > 0) != on || (later.Used > first.Used) != on || again > first.Made/2 {
			t.Errorf("rule %d: %+v after the first epoch, %+v after others", rule, first, later)
		}
		if _, err := p.measureLoad(t.Context(), convert.Shares{Raw: 0.5}, 0); err != nil {
			t.Errorf("rule %d: %v", rule, err)
		}
	}
}

// TestCacheOfARun: with a cache for part of the mix, the engine's hit ratio matches the
// table for the whole dataset.
func TestCacheOfARun(t *testing.T) {
	ds, o := photos(t, 40, ""), options(t)
	o.Engine.CachePolicy, o.Engine.CacheSize = cache.Constant, 3<<20
	p, done := prepared(t, ds, o)
	defer done()
	for _, raw := range []float64{0, 0.5} {
		s := convert.Shares{Raw: raw}
		r, err := p.start(t.Context(), s, 40, o.Storage, p.hits.at(s))
		if err != nil {
			t.Fatal(err)
		}
		got, want := -1.0, p.hits.at(s)
		near := func() bool { return got > want-0.1 && got < want+0.1 }
		for turn := 0; turn < 40 && !near(); turn++ { // a plan that comes late costs the hits of its epoch
			r.before[0], r.before[1] = r.counts()
			if err := r.measure(t.Context(), o.Least/2); err != nil {
				t.Fatal(err)
			}
			got = r.hits()
		}
		if n := r.engine.Stats().Batches.Making; n > 0 {
			t.Errorf("%d batches are being made while nothing reads", n)
		}
		r.close()
		if want < 0.05 || want > 0.95 || !near() {
			t.Errorf("at %v: hits %v, want %v", raw, got, want)
		}
	}
	if a, b := p.hits.at(convert.Shares{}), p.hits.at(convert.Shares{Raw: 1}); a <= b {
		t.Errorf("hits %v encoded, %v raw", a, b)
	}
}

// prepared returns a profiler that has made its copies.
func prepared(t *testing.T, ds *dataset.Dataset, o Options) (*profiler, func()) {
	t.Helper()
	work, err := makeWorkspace(o.Work, rootOf(ds))
	if err != nil {
		t.Fatal(err)
	}
	budget, err := engine.NewBudget(ds, o.Engine)
	if err != nil {
		t.Fatal(err)
	}
	p := &profiler{ds: ds, o: o.filled(), budget: budget, work: work}
	if err := p.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p, func() { _ = os.RemoveAll(work) }
}

// TestSpread: the shares are exact for multiples of ten images, samples that were raw before
// count, and any part of a mix has the shares of the whole, to within one.
func TestSpread(t *testing.T) {
	for already := range 11 {
		images := make([]picture, 100)
		for k := range images {
			images[k].files[shard.Raw].path, images[k].files[shard.Packed].path = "raw", "packed"
			if k%10 < already {
				images[k].is = shard.Raw
			}
		}
		for i := range tenths + 1 {
			for j := range tenths + 1 - i {
				var count [shard.NumCosts]int
				for k, f := range spread(images, convert.Shares{Raw: float64(i) / tenths, Packed: float64(j) / tenths}) {
					count[f]++
					if images[k].is == shard.Raw && f != shard.Raw {
						t.Fatal("a raw image cannot be anything else")
					}
					if expect := float64(k+1) * float64(i) / tenths; already == 0 && math.Abs(float64(count[shard.Raw])-expect) > 1 {
						t.Fatalf("%d of the first %d at %d:10", count, k+1, i)
					}
				}
				raw := max(10*i, 10*already)
				if packed := min(10*j, 100-raw); count != [shard.NumCosts]int{100 - raw - packed, packed, raw} {
					t.Errorf("%v, want %d raw and %d packed", count, raw, packed)
				}
			}
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{{[]float64{5}, 5}, {[]float64{3, 1}, 2}, {[]float64{9, 1, 2}, 2}, {[]float64{8, 1, 4, 2}, 3}} {
		if got := median(c.of); got != c.want {
			t.Errorf("the median of %v is %v, want %v", c.of, got, c.want)
		}
	}
}

// TestAlreadyRaw: no mix has fewer raw images than the dataset.
func TestAlreadyRaw(t *testing.T) {
	ds, o := photos(t, 4, "ppm"), options(t)
	o.Exhaustive = false
	r, err := Run(t.Context(), ds, o)
	if err != nil || r.AlreadyRaw != 1 || r.Shares.Raw != 1 || r.EncodedRatio != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestInterrupted: whenever it is cancelled, nothing is left behind, even if storage is so
// slow that one image would take hours.
func TestInterrupted(t *testing.T) {
	ds := ramps(t, 20, 128)
	for _, test := range []struct {
		calls int // of Copied and Measured before the cancellation; the first 20 are copies
		rate  int64
	}{{1, 0}, {7, 0}, {20, 1}, {21, 8 << 20}, {22, 8 << 20}, {24, 8 << 20}} {
		ctx, cancel := context.WithCancel(t.Context())
		o, calls := options(t), 0
		o.Storage.MaxBandwidth = test.rate
		o.Copied = func(done, _ int64) {
			if calls += int(min(done, 1)); calls == test.calls { // not the call before the first copy
				cancel()
			}
		}
		o.Measured = o.Copied
		if _, err := Run(ctx, ds, o); !errors.Is(err, context.Canceled) {
			t.Errorf("after %d calls: %v", test.calls, err)
		}
		cancel()
		empty(t, o.Work)
	}
}

func TestRefusals(t *testing.T) {
	ds := photos(t, 4, "ppm")
	for name, test := range map[string]struct {
		change func(*Options)
		is     error // nil: an option.Error
	}{
		"samples": {func(o *Options) { o.Samples = 3 }, nil},
		"workers": {func(o *Options) { o.Engine.Workers = 0 }, nil},
		"batch":   {func(o *Options) { o.Engine.BatchSize = 0 }, nil},
		"shards":  {func(o *Options) { o.Engine.Shards = 5 }, nil},
		"inside":  {func(o *Options) { o.Work = filepath.Join(ds.Root, "class-0") }, os.ErrNotExist},
		"root":    {func(o *Options) { o.Work = ds.Root }, ErrInside},
		"missing": {func(o *Options) { o.Work = "/nowhere/at/all" }, os.ErrNotExist},
		"pixels":  {func(o *Options) { o.Engine.Decoding.MaxPixels = 1 }, ErrNoSample},
	} {
		o := options(t)
		test.change(&o)
		var bad *option.Error
		if _, err := Run(t.Context(), ds, o); test.is == nil && !errors.As(err, &bad) || test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBadImagesArePassedOver: unreadable images are not part of the sample, whether the
// index knows them or not.
func TestBadImagesArePassedOver(t *testing.T) {
	ds, o := photos(t, 6, "jpeg"), options(t)
	if err := os.WriteFile(filepath.Join(ds.Root, "class-000", "junk.jpg"), []byte("no image"), 0o644); err != nil {
		t.Fatal(err)
	}
	ds = open(t, ds.Root)
	for i := range 2 {
		path := filepath.Join(ds.Root, ds.Path(i))
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		data, _ := os.ReadFile(path)
		os.WriteFile(path, append(data[:len(data)/2], make([]byte, len(data)-len(data)/2)...), 0o644)
		os.Chtimes(path, info.ModTime(), info.ModTime())
	}
	p, done := prepared(t, ds, o)
	defer done()
	if len(p.images) != 4 || p.result.Skipped != 3 {
		t.Errorf("%d images, %d skipped", len(p.images), p.result.Skipped)
	}
}

// TestArchive: of an archive, the encoded images are measured as files, too, and as the bytes that
// they are.
func TestArchive(t *testing.T) {
	from, path := photos(t, 6, "jpeg"), filepath.Join(t.TempDir(), "photos.tar")
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(w.AddFS(os.DirFS(from.Root)), w.Close(), os.WriteFile(path, b.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	o := options(t)
	o.Work = filepath.Dir(path)
	p, done := prepared(t, open(t, path), o)
	defer done()
	seen := 0
	for _, img := range p.images {
		got, err := os.ReadFile(img.files[shard.Encoded].path)
		if err != nil || int64(len(got)) != img.files[shard.Encoded].size || filepath.Dir(img.files[shard.Encoded].path) != p.work || img.files[shard.Raw].path == img.files[shard.Encoded].path {
			t.Errorf("%+v: %v", img, err)
		}
		for i := range from.Len() {
			if want, err := os.ReadFile(filepath.Join(from.Root, from.Path(i))); err == nil && bytes.Equal(want, got) {
				seen++
			}
		}
	}
	if seen != 6 || p.result.Dataset != path || !slices.Contains(p.result.Notes, CopiedOut) || slices.Contains(p.result.Notes, OtherStorage) {
		t.Errorf("%d images, %+v", seen, p.result)
	}
}

// TestWorkspaceBesideTheDataset: raw copies are made on the dataset's storage, unless that
// is not writable or another directory is given.
func TestWorkspaceBesideTheDataset(t *testing.T) {
	parent := t.TempDir()
	root := filepath.Join(parent, "photos")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	for _, c := range []struct{ asked, root, want string }{
		{"", root, parent},
		{elsewhere, root, elsewhere},
		{"", "/proc", os.TempDir()}, // on another device than its parent directory
	} {
		dir, err := makeWorkspace(c.asked, c.root)
		if err != nil {
			t.Fatal(err)
		}
		if got := filepath.Dir(dir); got != c.want {
			t.Errorf("asked for %q beside %s: it is in %s", c.asked, c.root, got)
		}
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	}
	if _, err := makeWorkspace("", "/"); !errors.Is(err, ErrInside) {
		t.Errorf("beside everything: %v", err)
	}
}
