package engine

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fakegpu"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// decodingOn is an engine whose GPU gets all samples that it can decode.
func decodingOn(t *testing.T, dir string, g *fakegpu.GPU, change ...func(*Options)) *Engine {
	t.Helper()
	return decodingWithin(t, dir, g, 0, change...)
}

// decodingWithin is the same, with a limit on the GPU's memory.
func decodingWithin(t *testing.T, dir string, g *fakegpu.GPU, limit int64, change ...func(*Options)) *Engine {
	t.Helper()
	if !fakegpu.Kernels {
		t.Skip("SKIPPED: the GPU's kernels need cgo here")
	}
	e := onDevice(t, dir, g, limit, append(change, func(o *Options) { o.DecodeOnDevice = true })...)
	e.device.share.all()
	return e
}

// all gives all samples to the GPU.
func (s *gpuShare) all() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole = true
}

// allKinds is a dataset of images of all formats and kinds, in all orientations. Some are damaged.
func allKinds(t *testing.T) string {
	t.Helper()
	dir, n, damaged := t.TempDir(), 0, 0
	err := filepath.WalkDir("../../decode/testdata", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(path, "refused") || filepath.Ext(path) == ".ppm" ||
			filepath.Ext(path) == ".gz" || filepath.Ext(path) == ".py" || filepath.Ext(path) == ".pgm" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		n++
		if filepath.Ext(path) == ".jpg" && n%5 == 0 {
			damaged++
			data[len(data)*2/3] ^= 0x55
		}
		return os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d%s", n, filepath.Ext(path))), data, 0o600)
	})
	testkit.Must(t, err)
	if n < 50 || damaged < 5 {
		t.Fatalf("%d images, of which %d are damaged", n, damaged)
	}
	return dir
}

// TestDeviceDecodesTheSame: all kinds of files have the same bytes, and the same errors, if a GPU
// decodes what it can.
func TestDeviceDecodesTheSame(t *testing.T) {
	dir := allKinds(t)
	for i, mode := range []resample.Mode{resample.Stretch, resample.NotLarger, resample.NotSmaller, resample.RandomResizedCrop} {
		for _, policy := range []catalog.OnError{Fail, Zero, Replace} {
			dtype := []layout.DType{layout.Uint8, layout.Float16, layout.BFloat16, layout.Float32}[(i+int(policy))%4]
			change := func(o *Options) {
				o.OnError, o.DType, o.BatchSize, o.Epochs = policy, dtype, 16, 2
				o.Layout, o.Decoding.Color = layout.Order(i%2), decode.Color((i/2+int(policy))%2)
				o.Transform = resample.Options{Mode: mode, Height: 40, Width: 56, Flip: 0.5,
					CropArea: resample.DefaultCropArea, CropRatio: resample.DefaultCropRatio}
				o.FullJPEGs, o.Fill, o.Decoding.IgnoreOrientation = i%2 == 0, 7, policy == Zero
			}
			inOrder := func(o *Options) {
				if policy == Fail { // if several samples are bad, an error names the first that was tried
					o.Workers, o.PrefetchDepth = 1, 0
				}
			}
			g := &fakegpu.GPU{}
			with, without := decodingOn(t, dir, g, change, inOrder), start(t, dir, change, inOrder)
			got, want := outcome(t, with), outcome(t, without)
			for k := range want {
				if got[k] != want[k] {
					t.Fatalf("mode %v, %v, policy %v: batch %d differs", mode, dtype, policy, k)
				}
			}
			s := with.Stats().JPEGs
			t.Logf("%v: %d of %d JPEGs in %d runs", mode, s.GPU, s.GPU+s.All(), g.Runs)
			if s.GPU == 0 || s.All() == 0 {
				t.Errorf("%d JPEGs were decoded by the GPU, %d by processors", s.GPU, s.All())
			}
			with.Close()
			without.Close()
		}
	}
}

// TestDeviceDecodesForTheDevice: readers on a GPU that decodes find the same as readers of host
// memory, and the cache counts as it does without a GPU.
func TestDeviceDecodesForTheDevice(t *testing.T) {
	dir := jpegDir(t, 40)
	change := func(o *Options) { o.BatchSize, o.CacheSize, o.CachePolicy, o.Shards = 8, 64<<20, cache.Static, 2 }
	g := &fakegpu.GPU{}
	with, without := decodingOn(t, dir, g, change), start(t, dir, change)
	for _, k := range allKeys(with) {
		f := open(t, with, k, layout.CUDA)
		want := read(t, without, k, layout.NHWCForm)
		if !bytes.Equal(tensorOf(t, g, f), want) || !bytes.Equal(read(t, with, k, layout.NHWCForm), want) {
			t.Fatalf("%s has other bytes", k)
		}
		f.Close()
	}
	a, b := with.Stats(), without.Stats()
	for i := range b.Epochs {
		if a.Epochs[i].Hits != b.Epochs[i].Hits || a.Epochs[i].Misses != b.Epochs[i].Misses || b.Epochs[1].Hits == 0 {
			t.Errorf("epoch %d: %d hits and %d misses, without a GPU %d and %d", i, a.Epochs[i].Hits, a.Epochs[i].Misses, b.Epochs[i].Hits, b.Epochs[i].Misses)
		}
	}
	if a.JPEGs.GPU != 120 || g.Fast == 0 {
		t.Errorf("the GPU decoded %d of 120 samples", a.JPEGs.GPU)
	}
}

// TestDeviceDecodesWholeFiles: JPEGs with entry points, which processors read in part, are read
// whole for the GPU.
func TestDeviceDecodesWholeFiles(t *testing.T) {
	dir := largeJPEGs(t, 12)
	ds := madeEntries(t, dir, dataset.Storage{})
	want := bytesOf(t, transformed(t, openDataset(t, dir), resample.RandomResizedCrop, large, inPart))
	d := gpu.New(&fakegpu.GPU{Memory: 1 << 30}, gpu.Options{})
	defer d.Close()
	e := transformed(t, ds, resample.RandomResizedCrop, large, inPart, withEntries(false), func(o *Options) { o.Device, o.DecodeOnDevice = d, fakegpu.Kernels })
	if fakegpu.Kernels {
		e.device.share.all()
	}
	if !bytes.Equal(bytesOf(t, e), want) {
		t.Error("other bytes")
	}
	if s := e.Stats(); fakegpu.Kernels && (s.JPEGs.GPU != s.Images || s.Storage.Reads != s.Images) {
		t.Errorf("%+v: of %d samples", s.JPEGs, s.Images)
	}
	e.Close()
}

// TestDeviceDecodingFails has every call fail, once or from some time on. No byte of any host form
// changes, nothing stays allocated, and nothing is logged twice.
func TestDeviceDecodingFails(t *testing.T) {
	dir := jpegDir(t, 24)
	change := func(o *Options) { o.BatchSize, o.Epochs = 8, 2 }
	want := outcome(t, start(t, dir, change))
	for _, why := range []error{gpu.ErrMemory, gpu.ErrLost, errors.New("some failure")} {
		for _, call := range []string{"Free", "Alloc", "Register", "Run"} {
			for from := range int32(2) {
				var calls atomic.Int32
				g := &fakegpu.GPU{Fail: func(c string) error {
					if c == call && calls.Add(1) > from {
						return fmt.Errorf("%s: %w", c, why)
					}
					return nil
				}}
				var log bytes.Buffer
				e := decodingOn(t, dir, g, change, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
				for k, got := range outcome(t, e) {
					if got != want[k] {
						t.Errorf("%s fails after %d calls (%v): batch %d differs", call, from, why, k)
					}
				}
				e.Close()
				if n := logLines(log.Bytes(), "does not decode"); n > 1 || n == 0 && call == "Run" {
					t.Errorf("%s fails after %d calls (%v): said %d times", call, from, why, n)
				}
			}
		}
	}
}

// TestLargeImagesAreDecodedByProcessors, since one block of the GPU's threads would take too long.
func TestLargeImagesAreDecodedByProcessors(t *testing.T) {
	dir := jpegDir(t, 7)
	var file bytes.Buffer
	testkit.Must(t, jpeg.Encode(&file, image.NewYCbCr(image.Rect(0, 0, 2049, 2048), image.YCbCrSubsampleRatio420), nil))
	writeFile(t, filepath.Join(dir, "large.jpg"), file.Bytes())
	e := decodingOn(t, dir, &fakegpu.GPU{}, func(o *Options) {
		o.BatchSize, o.FullJPEGs, o.PrefetchDepth = 8, true, 0
		o.Transform = resample.Options{Mode: resample.Stretch, Height: 100, Width: 100}
	})
	read(t, e, Key{}, layout.NHWCForm)
	if s := e.Stats().JPEGs; s.GPU != 7 || s.All() != 1 {
		t.Errorf("the GPU decoded %d, processors %d", s.GPU, s.All())
	}
}

// TestLargePortions: the GPU makes all samples of a batch at once, or as many as there is room for,
// and leaves none to processors.
func TestLargePortions(t *testing.T) {
	const n = 64
	dir := jpegDir(t, n)
	change := func(o *Options) { o.BatchSize, o.Epochs, o.PrefetchDepth = n, 1, 0 }
	want := outcome(t, start(t, dir, change))
	for _, memory := range []int64{1 << 30, 96 << 20, 48 << 20} {
		var mu sync.Mutex
		largest := 0
		g := &fakegpu.GPU{Memory: memory, Begin: func(r gpu.Run) {
			mu.Lock()
			defer mu.Unlock()
			if len(r.Launches) > 0 {
				largest = max(largest, r.Launches[0].Grid[0])
			}
		}}
		e := decodingOn(t, dir, g, change)
		sameOutcome(t, e, want)
		if s := e.Stats().JPEGs; s.GPU != n || (largest == n) != (memory == 1<<30) {
			t.Errorf("%d bytes: the GPU decoded %d of %d, at most %d at once", memory, s.GPU, n, largest)
		}
		e.Close()
	}
}

// TestStagingGivesWay: what workers of the GPU keep for the next samples gives way to a batch.
func TestStagingGivesWay(t *testing.T) {
	const n = 64
	e := decodingOn(t, jpegDir(t, 2*n), &fakegpu.GPU{}, alone, func(o *Options) { o.BatchSize, o.MemoryWait = n, time.Second })
	read(t, e, Key{}, layout.NHWCForm)
	if e.Stats().JPEGs.GPU == 0 {
		t.Error("the GPU made nothing")
	}
	e.memory.batches.dropUnheld()
	exhaust(e)
	read(t, e, Key{Batch: 1}, layout.NHWCForm)
}

// TestReadersOverrun: a process that writes all over the memory that it can open does not change
// the samples: the GPU makes them where no other process can write.
func TestReadersOverrun(t *testing.T) {
	dir := jpegDir(t, 24)
	// Batches made ahead for readers on the GPU are where these readers can write, and may spoil
	// them.
	change := func(o *Options) { o.BatchSize, o.PrefetchDepth = 8, 0 }
	g := &fakegpu.GPU{Overrun: true}
	e := decodingOn(t, dir, g, change)
	open(t, e, Key{}, layout.CUDA).Close()
	sameOutcome(t, e, outcome(t, start(t, dir, change)))
	if e.Stats().JPEGs.GPU == 0 {
		t.Error("the GPU made nothing")
	}
}

// TestDecodingAlone: a GPU whose memory no other process can open decodes for readers of all forms
// except CUDA, which does not exist then.
func TestDecodingAlone(t *testing.T) {
	dir := jpegDir(t, 24)
	change := func(o *Options) { o.BatchSize = 8 }
	e := decodingOn(t, dir, &fakegpu.GPU{Alone: errors.New("a part of a GPU")}, change)
	if _, err := e.Open(t.Context(), Key{}, layout.CUDA); !errors.Is(err, ErrNotExist) || e.HasGPU() {
		t.Error(err)
	}
	sameOutcome(t, e, outcome(t, start(t, dir, change)))
	if e.Stats().JPEGs.GPU == 0 {
		t.Error("the GPU made nothing")
	}
}

// TestPortion: the GPU gets as many samples as it makes in the time that the processors need for
// the others.
func TestPortion(t *testing.T) {
	for _, c := range []struct {
		device, processor float64
		n, processors     int
		want              int
	}{
		{0, 0, 64, 8, 32},       // not measured yet
		{0, 0, 3, 8, 0},         // too few
		{1, 8, 100, 8, 50},      // as fast as eight processors
		{1, 24, 100, 8, 75},     // three times as fast
		{1, 1, 90, 8, 10},       // as fast as one
		{100, 1, 64, 8, 4},      // too slow: measured now and then
		{1e-9, 1, 64, 1, 63},    // processors always help
		{1, 8, 4, 8, 4},         // few
		{1, 1e9, 1000, 1, 999},  // no overflow
		{1e9, 1e-9, 1000, 1, 4}, // nor underflow
	} {
		s := &gpuShare{device: c.device, processor: c.processor}
		if got := s.portion(c.n, c.processors); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	s := &gpuShare{device: 100, processor: 1}
	given := 0
	for range 10 * (longestPause + 1) {
		given += s.portion(64, 8)
	}
	if given != 10*leastPortion {
		t.Errorf("a slow GPU gets %d samples", given)
	}
	s.device = 1e-3 // it has become faster
	s.pause = 0
	if first, next := s.portion(64, 8), s.portion(64, 8); first < 32 || next < 32 {
		t.Error("a fast GPU rests")
	}
}
