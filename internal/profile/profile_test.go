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
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/convert"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/gen"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/shard"
)

// photos makes a dataset and opens it.
func photos(t testing.TB, n int, format string) *dataset.Dataset {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "photos")
	testkit.Must(t, gen.Write(t.Context(), gen.Options{Dir: dir, Images: n, Kind: gen.Photo, Classes: 2, Format: format, Workers: 2}))
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
	testkit.Must(t, png.Encode(&file, img))
	for i := range n {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.png", i)), file.Bytes(), 0o644))
	}
	return open(t, dir)
}

func open(t testing.TB, dir string) *dataset.Dataset {
	t.Helper()
	ds, err := dataset.Open(t.Context(), dir, dataset.Options{Workers: 2, Prober: sample.Probe})
	testkit.Must(t, err)
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

// TestRun: which mix wins, and why, if one resource is much scarcer than the others. The answer is
// one of the mixes that the engine ran with, progress is reported, and nothing is left behind.
func TestRun(t *testing.T) {
	small, large, pngs := ramps(t, 20, 128), ramps(t, 10, 1000), photos(t, 10, "png")
	type test struct {
		ds     *dataset.Dataset
		change func(o *Options)
		ok     func(r Result) bool
	}
	cached := func(bandwidth, bytes int64, samples int) func(*Options) {
		return func(o *Options) {
			o.Storage.MaxBandwidth, o.Samples = bandwidth, samples
			o.Engine.CachePolicy, o.Engine.CacheSize = cache.Constant, bytes
		}
	}
	has := func(r Result, n Note) bool { return slices.Contains(r.Notes, n) }
	three := func(exhaustive bool) test {
		return test{pngs, func(o *Options) { o.Forms, o.Exhaustive, o.Storage.Direct = nil, exhaustive, false }, func(r Result) bool {
			alone := 0
			for _, run := range r.Runs {
				if max(run.Of(shard.Encoded), run.Packed, run.Raw) == 1 {
					alone++
				}
			}
			return slices.Equal(r.Forms, []string{"encoded", "packed", "raw"}) && len(r.Steps) <= 5 && r.Steps[0].Packed == 1 &&
				r.Packed.Decode > 0 && r.Packed.Decode < r.Encoded.Decode && r.Packed.Bytes > 0 && r.Packed.Bytes < r.Raw.Bytes &&
				alone == shard.NumCosts && (!exhaustive || len(r.Runs) >= 3*tenths)
		}}
	}
	// A part that the cache holds does not make raw images win, unless it is all there is. If the
	// number of all is known, so is what the cache holds.
	part := func(samples int, note bool) test {
		return test{small, cached(2<<20, 32<<20, samples), func(r Result) bool {
			noHits := !slices.ContainsFunc(r.Runs, func(run Trial) bool { return run.HitRatio > 0 })
			return has(r, SmallDataset) == note && math.IsInf(float64(r.Steps[0].Loading), 1) == (samples == 20) &&
				(samples == 20 || r.Shares.Raw <= 0.35) && (samples > 0 || noHits)
		}}
	}
	trained := func(consumer time.Duration, ok func(of *Training, r Result) bool) test {
		change := func(o *Options) { o.Consumer, o.Least = consumer, time.Millisecond }
		return test{pngs, change, func(r Result) bool { return r.Training != nil && ok(r.Training, r) }}
	}
	for name, c := range map[string]test{
		// 40 raw images per second and thousands of encoded ones.
		"slow storage": {small, func(o *Options) { o.Storage.MaxBandwidth = 2 << 20 }, func(r Result) bool {
			first := r.Steps[0]
			return r.Shares.Raw <= 0.35 && r.BestTenths.Raw <= 0.35 && r.Raw.Load >= 2*r.Encoded.Load && len(r.Steps) >= 3 && len(r.Steps) <= 4 &&
				first.Raw == 0.5 && first.Limit == Loading && first.From == 0 && first.To == 5
		}},
		// Raw files are larger, but have a hundredth of the pixels.
		"storage as fast as memory": {large, func(o *Options) {
			cached(0, 64<<20, large.Len())(o)
			o.Storage.Direct = false
			o.Raw.Resize, o.Raw.Height, o.Raw.Width = resample.Stretch, 100, 100
			o.Engine.Transform = resample.Options{Mode: resample.Stretch, Height: 32, Width: 32}
		}, func(r Result) bool {
			first := r.Steps[0]
			return r.Shares.Raw >= 0.7 && r.Encoded.Decode >= 2*r.Raw.Decode && r.Raw.Bytes > r.Encoded.Bytes &&
				first.Limit == Decoding && first.From == 5 && first.To == 10 && has(r, PageCache) && !has(r, RawSmaller)
		}},
		// They load and decode faster, so that no storage is too slow for them.
		"small raw images": {small, func(o *Options) {
			o.Storage.MaxBandwidth, o.Exhaustive = 100<<10, true
			o.Raw.Resize, o.Raw.Height, o.Raw.Width = resample.NotSmaller, 4, 4
		}, func(r Result) bool { return r.Shares.Raw >= 0.9 && has(r, RawSmaller) && len(r.Runs) > tenths }},
		// Nothing has to be loaded, but raw images are not smaller.
		"all cached": {small, cached(0, 64<<20, small.Len()), func(r Result) bool {
			return math.IsInf(float64(r.Steps[0].Loading), 1) && r.Raw.Bytes > r.Encoded.Bytes && !has(r, RawSmaller)
		}},
		"a part": part(0, true), "all of it": part(20, false), "a hundredth": part(2000, false), "a hundredth of a hundredth": part(200_000, false),
		// No mix has fewer raw images than the dataset.
		"already raw": {photos(t, 4, "ppm"), func(*Options) {}, func(r Result) bool {
			return r.AlreadyRaw == 1 && r.Shares.Raw == 1 && r.EncodedRatio == 0 && r.Training == nil
		}},
		"three forms": three(false), "three forms, all mixes": three(true),
		"training in no time": trained(time.Nanosecond, func(of *Training, r Result) bool {
			return of.Smallest == nil && of.Fastest.Limit != Consumer && of.Fastest.Throughput == r.Verified
		}),
		"training for an hour": trained(time.Hour, func(of *Training, _ Result) bool {
			return of.Smallest != nil && of.Smallest.AsItIs && of.Single.Shares == of.Smallest.Shares && of.Fastest.Limit == Consumer
		}),
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			c.change(&o)
			if testing.Short() && o.Exhaustive && o.Forms == nil {
				t.Skip("SKIPPED: this run is a short one, and all mixes of three forms take long; those of two are measured")
			}
			var calls [2]int64
			for k, progress := range []*func(done, total int64){&o.Copied, &o.Measured} {
				*progress = func(done, total int64) {
					if calls[k] += min(done, 1); done > total || total < 1 || done != calls[k] {
						t.Errorf("%d of %d", done, total)
					}
				}
			}
			r, err := Run(t.Context(), c.ds, o)
			if err != nil || !c.ok(r) {
				t.Fatalf("%+v, %v", r, err)
			}
			shares := func(run Trial) bool { return apart(run.Shares, r.Shares) < 0.006 } // which are rounded
			wrong := func(run Trial) bool { return run.FirstEpoch <= 0 || run.Noise < 0 }
			if !slices.ContainsFunc(r.Runs, shares) || slices.ContainsFunc(r.Runs, wrong) || r.Shares.Validate() != nil ||
				math.Abs(r.Of(shard.Encoded)-r.EncodedRatio) > 1e-9 || r.Verified <= 0 || r.EncodedOnly <= 0 {
				t.Errorf("%+v", r)
			}
			measured := map[convert.Shares]bool{}
			for _, step := range r.Steps {
				measured[step.Shares] = true
			}
			if calls[0] != int64(r.Images) || calls[1] < int64(2*len(measured)+len(r.Runs)) {
				t.Errorf("%d copies of %d, %d figures", calls[0], r.Images, calls[1])
			}
			empty(t, o.Work)
		})
	}
}

// TestNoiseDecidesNothing: a mix is the answer only if it was faster in all turns but one.
func TestNoiseDecidesNothing(t *testing.T) {
	m := model{load: costs{0.5, 0, 1}, decode: costs{1.5, 0, 0.5}, hits: func(convert.Shares) float64 { return 0 }}
	trial := func(raw float64, turns ...float64) Trial { return newTrial(convert.Shares{Raw: raw}, 0, 1, turns) }
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
		if r := &p.result; r.Shares.Raw != c.answer || r.AsItIs != (c.answer == 0) || !slices.Equal(r.Notes, c.notes) {
			t.Errorf("%v: %v raw, as it is: %t, %v; want %v, %v", c.crossing.turns, r.Shares.Raw, r.AsItIs, r.Notes, c.answer, c.notes)
		}
	}
}

// TestEntryPoints: measurements use entry points if the mount does. The pipeline knows them from
// the second epoch on, loading from the beginning.
func TestEntryPoints(t *testing.T) {
	for _, rule := range []decode.EntryRule{decode.EntryRows, decode.EntryOff} {
		ds, o := photos(t, 20, "jpeg"), options(t)
		o.Engine.Entries, o.Engine.Decoding.Kernel, o.Engine.FullJPEGs = rule, decode.Portable, true
		o.Engine.Transform = resample.Options{Mode: resample.RandomResizedCrop, Height: 32, Width: 32, CropArea: [2]float64{0.08, 1}, CropRatio: [2]float64{0.75, 4.0 / 3}}
		p := prepared(t, ds, o)
		r, err := p.start(t.Context(), convert.Shares{Raw: 0.5}, 20, o.Storage, 0)
		testkit.Must(t, err)
		defer r.close()
		first := r.engine.Stats().JPEGs.Entries
		testkit.Must(t, r.measure(t.Context(), o.Least))
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
	p := prepared(t, ds, o)
	for _, raw := range []float64{0, 0.5} {
		s := convert.Shares{Raw: raw}
		r, err := p.start(t.Context(), s, 40, o.Storage, p.hits.at(s))
		testkit.Must(t, err)
		got, want := -1.0, p.hits.at(s)
		near := func() bool { return got > want-0.1 && got < want+0.1 }
		for turn := 0; turn < 40 && !near(); turn++ { // a plan that comes late costs the hits of its epoch
			r.before[0], r.before[1] = r.counts()
			testkit.Must(t, r.measure(t.Context(), o.Least/2))
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
func prepared(t *testing.T, ds *dataset.Dataset, o Options) *profiler {
	t.Helper()
	work, err := makeWorkspace(o.Work, rootOf(ds))
	testkit.Must(t, err)
	budget, err := engine.NewBudget(ds, o.Engine)
	testkit.Must(t, err)
	p := &profiler{ds: ds, o: o.filled(), budget: budget, work: work.dir}
	testkit.Must(t, p.prepare(t.Context()))
	t.Cleanup(func() { _ = work.remove() })
	return p
}

// TestSpread: the shares are exact for multiples of ten images, samples that were raw before
// count, and any part of a mix has the shares of the whole, to within one.
func TestSpread(t *testing.T) {
	for already := range 11 {
		is := make([]shard.Cost, 100)
		for k := range is {
			if k%10 < already {
				is[k] = shard.Raw
			}
		}
		for i := range tenths + 1 {
			for j := range tenths + 1 - i {
				var count [shard.NumCosts]int
				every := func(int, shard.Cost) bool { return true }
				for k, f := range spread(is, every, convert.Shares{Raw: float64(i) / tenths, Packed: float64(j) / tenths}) {
					count[f]++
					if is[k] == shard.Raw && f != shard.Raw {
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
		"root":    {func(o *Options) { o.Work = ds.Root }, convert.ErrInside},
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

// TestBadImagesArePassedOver: unreadable images are not measured, whether the index knows them or
// not.
func TestBadImagesArePassedOver(t *testing.T) {
	dir := photos(t, 6, "jpeg").Root
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "class-000", "junk.jpg"), []byte("no image"), 0o644))
	ds := open(t, dir)
	for i := range 2 {
		path := filepath.Join(dir, ds.Path(i))
		info, err := os.Stat(path)
		testkit.Must(t, err)
		data, _ := os.ReadFile(path)
		clear(data[len(data)/2:])
		testkit.Must(t, errors.Join(os.WriteFile(path, data, 0o644), os.Chtimes(path, info.ModTime(), info.ModTime())))
	}
	if p := prepared(t, ds, options(t)); len(p.images) != 4 || p.result.Skipped != 3 {
		t.Errorf("%d images, %d skipped", len(p.images), p.result.Skipped)
	}
}

// TestArchive: the images of an archive are copied out of it, as the bytes that they are.
func TestArchive(t *testing.T) {
	from, path := photos(t, 6, "jpeg"), filepath.Join(t.TempDir(), "photos.tar")
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	testkit.Must(t, errors.Join(w.AddFS(os.DirFS(from.Root)), w.Close(), os.WriteFile(path, b.Bytes(), 0o644)))
	originals := map[string]bool{}
	for i := range from.Len() {
		data, err := os.ReadFile(filepath.Join(from.Root, from.Path(i)))
		testkit.Must(t, err)
		originals[string(data)] = true
	}
	o := options(t)
	o.Work = filepath.Dir(path)
	p := prepared(t, open(t, path), o)
	for _, img := range p.images {
		original := img.files[shard.Encoded]
		got, err := os.ReadFile(original.path)
		if !originals[string(got)] || int64(len(got)) != original.size || filepath.Dir(original.path) != p.work || img.files[shard.Raw].path == original.path {
			t.Errorf("%+v: %v", img, err)
		}
		delete(originals, string(got))
	}
	if len(originals) > 0 || p.result.Dataset != path || !slices.Contains(p.result.Notes, CopiedOut) || slices.Contains(p.result.Notes, OtherStorage) {
		t.Errorf("%d images are missing: %+v", len(originals), p.result)
	}
}

// TestForms: images that cannot be packed are measured as they are. If no image can be packed,
// packed ones are not candidates.
func TestForms(t *testing.T) {
	mixed := t.TempDir() + "/mixed"
	testkit.Must(t, gen.Write(t.Context(), gen.Options{Dir: mixed, Images: 60, Kind: gen.Mixed, Classes: 2, Seed: 3}))
	for _, c := range []struct {
		ds    *dataset.Dataset
		forms []shard.Cost
		want  []string
	}{
		{open(t, mixed), nil, []string{"encoded", "packed", "raw"}},
		{photos(t, 6, "ppm"), []shard.Cost{shard.Packed}, []string{"encoded"}},
	} {
		o := options(t)
		o.Forms = c.forms
		p := prepared(t, c.ds, o)
		packs := len(c.want) > 1
		if !slices.Equal(p.result.Forms, c.want) || slices.Contains(p.result.Notes, NoPackedForm) == packs {
			t.Errorf("%v, %v", p.result.Forms, p.result.Notes)
		}
		most := p.tenth(tenths).Packed
		packed, images := 0, formsIn(p.images, p.tenth(min(tenths, p.path.last())))
		for k, f := range images {
			if f == shard.Packed {
				packed++
			}
			if p.images[k].files[f].path == "" {
				t.Errorf("image %d has no file as %v", k, f)
			}
		}
		if packs && (most < 0.3 || most > 0.9 || packed != int(most*float64(len(images))+0.5)) {
			t.Errorf("%d of %d are packed, want a share of %v", packed, len(images), most)
		}
	}
}

// TestWorkspaceBesideTheDataset: raw copies are made on the dataset's storage, unless that
// is not writable or another directory is given.
func TestWorkspaceBesideTheDataset(t *testing.T) {
	parent := t.TempDir()
	root := filepath.Join(parent, "photos")
	testkit.Must(t, os.Mkdir(root, 0o755))
	elsewhere := t.TempDir()
	for _, c := range []struct{ asked, root, want string }{
		{"", root, parent},
		{elsewhere, root, elsewhere},
		{"", "/proc", os.TempDir()}, // on another device than its parent directory
	} {
		w, err := makeWorkspace(c.asked, c.root)
		testkit.Must(t, err)
		if got := filepath.Dir(w.dir); got != c.want {
			t.Errorf("asked for %q beside %s: it is in %s", c.asked, c.root, got)
		}
		if err := w.remove(); err != nil {
			t.Error(err)
		}
	}
	if _, err := makeWorkspace("", "/"); !errors.Is(err, convert.ErrInside) {
		t.Errorf("beside everything: %v", err)
	}
}

// TestAbandonedWorkspaces: a profiler removes what killed ones have left beside its workspace, and
// nothing else: not the files of those that live, and not what only looks like a workspace.
func TestAbandonedWorkspaces(t *testing.T) {
	parent := t.TempDir()
	begin := func() workspace {
		w, err := makeWorkspace(parent, "")
		testkit.Must(t, err)
		t.Cleanup(func() { _ = w.remove() })
		testkit.Must(t, os.WriteFile(filepath.Join(w.dir, "copy"), nil, 0o644))
		return w
	}
	other, link, file := filepath.Join(parent, "photos"), filepath.Join(parent, workspaceName+"link"), filepath.Join(parent, workspaceName+"file")
	err := errors.Join(os.Mkdir(other, 0o755), os.Symlink(other, link), os.WriteFile(file, nil, 0o644))
	testkit.Must(t, err)
	killed, lives := begin(), begin()
	killed.lock.Close() // as the kernel does
	begin()
	if _, err := os.Lstat(killed.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a killed one has left is still there: %v", err)
	}
	for _, path := range []string{filepath.Join(lives.dir, "copy"), other, link, file} {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
}
