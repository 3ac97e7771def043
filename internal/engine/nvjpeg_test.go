package engine

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// byNVJPEG is an engine whose GPU has nvJPEG.
func byNVJPEG(t *testing.T, dir string, g *fakegpu.GPU, change ...func(*Options)) *Engine {
	t.Helper()
	if !fakegpu.Kernels {
		t.Skip("SKIPPED: the GPU's kernels need cgo here")
	}
	return onDevice(t, dir, g, 0, append(change, func(o *Options) {
		name, err := o.Device.OpenNVJPEG(o.Decoding.Color == decode.Gray)
		testkit.Must(t, err)
		o.NVJPEG = name
	})...)
}

// addNVJPEG adds a GPU that has nvJPEG to options.
func addNVJPEG(t testing.TB, o *Options, g *fakegpu.GPU) {
	t.Helper()
	o.Device, o.DecodeOnDevice = gpu.New(g, gpu.Options{}), true
	name, err := o.Device.OpenNVJPEG(o.Decoding.Color == decode.Gray)
	testkit.Must(t, err)
	o.NVJPEG = name
}

// TestNVJPEGPixels: samples that nvJPEG decodes have its pixels, all others those of processors.
// All errors are those of processors.
func TestNVJPEGPixels(t *testing.T) {
	dir := allKinds(t)
	change := func(o *Options) {
		o.OnError, o.BatchSize, o.Workers, o.Epochs = Zero, 1, 2, 1
	}
	with, without := byNVJPEG(t, dir, &fakegpu.GPU{}, change), start(t, dir, change)
	other, same := 0, 0
	for _, k := range allKeys(with) {
		got, want := read(t, with, k, layout.NHWCForm), read(t, without, k, layout.NHWCForm)
		path := filepath.Join(dir, with.catalog.Dataset.Path(k.Batch))
		data := contents(t, path)
		d, err := without.Describe(t.Context(), k)
		testkit.Must(t, err)
		if decode.Ordinary(data) && d.Samples[0].Status == catalog.StatusOK {
			other++
			for i := range want {
				want[i] ^= 1
			}
		} else {
			same++
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s has other pixels", path)
		}
	}
	if s := with.Stats().JPEGs; s.GPU != int64(other) || other < 20 || same < 20 {
		t.Errorf("%d samples of nvJPEG, %d of processors; %+v", other, same, s)
	}
	if a, b := with.Catalog(), without.Catalog(); a.Fingerprint == b.Fingerprint || !strings.HasPrefix(a.Decoder(), "nvJPEG in Go, ") || !strings.HasSuffix(a.Decoder(), b.Decoder()) {
		t.Errorf("%s, %s", a.Decoder(), b.Decoder())
	}
}

// TestNVJPEGIsTheSame: the bytes depend neither on the number of workers, nor on memory, the cache,
// the form or what was read before.
func TestNVJPEGIsTheSame(t *testing.T) {
	dir := allKinds(t)
	for i, mode := range []resample.Mode{resample.RandomResizedCrop, resample.NotLarger} {
		policy := []catalog.OnError{Zero, Replace}[i]
		change := func(o *Options) {
			o.OnError, o.BatchSize, o.Epochs, o.Shuffle, o.MemoryLimit = policy, 24, 1, true, 256<<20
			o.Decoding.Color, o.Fill, o.Layout = decode.Color(i), 7, layout.Order(i)
			o.Transform = resample.Options{Mode: mode, Height: 40, Width: 56, Flip: 0.5,
				CropArea: resample.DefaultCropArea, CropRatio: resample.DefaultCropRatio}
		}
		few := byNVJPEG(t, dir, &fakegpu.GPU{}, change, func(o *Options) { o.Workers, o.BatchWorkers, o.PrefetchDepth = 1, 1, 0 })
		want := outcome(t, few)
		g := &fakegpu.GPU{}
		many := byNVJPEG(t, dir, g, change, func(o *Options) { o.Workers, o.PrefetchDepth, o.CacheSize, o.CachePolicy = 5, 3, 32<<20, cache.Static })
		onGPU := many.Catalog().TensorForm()
		for _, k := range allKeys(many) {
			f := open(t, many, k, layout.CUDA)
			if !bytes.Equal(tensorOf(t, g, f), read(t, many, k, onGPU)) {
				t.Fatalf("%v, %v: %s differs on the GPU", mode, policy, k)
			}
			f.Close()
		}
		if got := outcome(t, many); !slices.Equal(got, want) {
			t.Errorf("%v, %v: more workers make other bytes", mode, policy)
		}
		short := byNVJPEG(t, dir, &fakegpu.GPU{Memory: 4 << 20}, change, func(o *Options) { o.MemoryLimit = 48 << 20 })
		if got := outcome(t, short); !slices.Equal(got, want) {
			t.Errorf("%v, %v: less memory makes other bytes", mode, policy)
		}
		a, b := few.Stats().JPEGs, many.Stats().JPEGs
		if a.GPU == 0 || a.All() == 0 || b.GPU < a.GPU {
			t.Errorf("%v, %v: %+v, %+v", mode, policy, a, b)
		}
		few.Close()
		many.Close()
		short.Close()
	}
}

// TestNVJPEGFails has every call fail, once or from some time on. An open fails, or has the usual
// bytes, and once the GPU works again, so does the batch. Nothing stays charged.
func TestNVJPEGFails(t *testing.T) {
	dir := jpegDir(t, 6)
	change := func(o *Options) { o.BatchSize, o.Epochs, o.PrefetchDepth = 3, 1, 0 }
	want := outcome(t, byNVJPEG(t, dir, &fakegpu.GPU{}, change))
	for _, why := range []error{gpu.ErrMemory, gpu.ErrLost, fmt.Errorf("%w: in a test", gpu.ErrNVJPEG), nil} {
		for _, call := range []string{"Free", "Alloc", "Register", "Run"} {
			for from := range int32(2) {
				var calls atomic.Int32
				var works atomic.Bool
				g := &fakegpu.GPU{Fail: func(c string) error {
					if c != call || works.Load() || calls.Add(1) <= from {
						return nil
					} else if why == nil {
						panic("in the driver")
					}
					return fmt.Errorf("%s: %w", c, why)
				}}
				e := byNVJPEG(t, dir, g, change)
				failed := 0
				for i, k := range allKeys(e) {
					if f, err := e.Open(t.Context(), k, layout.NHWCForm); err == nil {
						if string(f.Bytes()) != want[i] {
							t.Errorf("%s fails after %d calls (%v): other bytes", call, from, why)
						}
						f.Close()
					} else if failed++; !errors.Is(err, ErrMachine) && !errors.Is(err, ErrNoMemory) {
						t.Errorf("%s fails after %d calls (%v): %v", call, from, why, err)
					}
				}
				if call == "Run" && failed == 0 {
					t.Errorf("%s fails after %d calls (%v): nothing failed", call, from, why)
				}
				if works.Store(true); !errors.Is(why, gpu.ErrLost) && !slices.Equal(outcome(t, e), want) {
					t.Errorf("%s failed after %d calls (%v), and the next open has other bytes", call, from, why)
				}
				e.Close()
				if used, _ := e.memory.ledger.usage(useBatches); used != 0 {
					t.Errorf("%s fails after %d calls (%v): %d bytes of batches are left", call, from, why, used)
				}
			}
		}
	}
}

// TestNVJPEGStandsIn: nvJPEG decodes the replacement of a bad sample, too.
func TestNVJPEGStandsIn(t *testing.T) {
	dir := jpegDir(t, 8)
	name := filepath.Join(dir, "02.jpg")
	data, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, data[:len(data)/2], 0o600)
	}
	testkit.Must(t, err)
	e := byNVJPEG(t, dir, &fakegpu.GPU{}, func(o *Options) { o.BatchSize, o.OnError = 4, Replace })
	got := read(t, e, Key{}, layout.NHWCForm)
	if n := len(got) / 4; !bytes.Equal(got[2*n:3*n], got[3*n:]) {
		t.Error("the stand-in has other pixels than the sample itself")
	}
}

// TestNVJPEGDecodesAtFullSize: nvJPEG decodes all of an image, however much it is reduced, and
// leaves images that are reduced too much.
func TestNVJPEGDecodesAtFullSize(t *testing.T) {
	dir := jpegDir(t, 8)
	small := func(o *Options) {
		o.BatchSize, o.Epochs, o.Transform = 4, 1, resample.Options{Mode: resample.Stretch, Height: 20, Width: 30}
	}
	e := byNVJPEG(t, dir, &fakegpu.GPU{}, small)
	full := byNVJPEG(t, dir, &fakegpu.GPU{}, small, func(o *Options) { o.FullJPEGs = true })
	sameOutcome(t, e, outcome(t, full))
	var picture bytes.Buffer
	testkit.Must(t, jpeg.Encode(&picture, image.NewGray(image.Rect(0, 0, 40, 40)), nil))
	for _, i := range []int{1, 2, 7} {
		name := filepath.Join(dir, fmt.Sprintf("%02d.jpg", i))
		// The index of the directory is made anew only if the directory itself changes.
		testkit.Must(t, os.Remove(name))
		writeFile(t, name, picture.Bytes())
	}
	data := contents(t, filepath.Join(dir, "00.jpg"))
	for _, c := range []struct {
		image, slot int // sides
		want        bool
	}{{200, 200, true}, {9000, 200, true}, {10000, 200, false}, {200, 10000, false}, {7000, 7000, false}} {
		l := &load{batches: e.batches, item: item{batch: &batch{content: content{spec: layout.Spec{N: 1, H: c.slot, W: c.slot, C: 3}}}}}
		l.sample.head.Height, l.sample.head.Width, l.sample.data = c.image, c.image, data
		l.sample.transform = resample.Options{Mode: resample.Stretch, Height: 200, Width: 200}.Choose(0, 0, c.image, c.image)
		if l.isForNVJPEG() != c.want {
			t.Errorf("%+v: %t", c, !c.want)
		}
	}
	e = byNVJPEG(t, dir, &fakegpu.GPU{}, small, func(o *Options) { o.Transform.Height, o.Transform.Width = 1, 1 })
	outcome(t, e)
	if s := e.Stats().JPEGs; s.GPU != 3 {
		t.Errorf("%+v: of 3 samples that are not reduced too much", s)
	}
}

// TestNVJPEGHangs: while a call hangs, opens fail without making another call, whose memory would
// be lost as well; samples that processors decode are served. Once the call has returned, all bytes
// are as usual.
func TestNVJPEGHangs(t *testing.T) {
	dir := mixedDir(t, 8, 4)
	change := func(o *Options) {
		mixed(o)
		o.BatchSize, o.Epochs, o.Shuffle, o.Workers = 4, 1, false, 1
	}
	want := outcome(t, byNVJPEG(t, dir, &fakegpu.GPU{}, change))
	hanging := newGate()
	g := &fakegpu.GPU{Begin: func(r gpu.Run) { hanging.pass(r) }}
	e := byNVJPEG(t, dir, g, change)
	impatient(e)
	hanging.shut(func(what any) bool { return len(what.(gpu.Run).Images) > 0 })
	for range 3 {
		for i, k := range allKeys(e) {
			f, err := e.Open(t.Context(), k, layout.NHWCForm)
			if err == nil {
				if string(f.Bytes()) != want[i] {
					t.Errorf("%s has other bytes", k)
				}
				f.Close()
			} else if !errors.Is(err, ErrMachine) || !errors.Is(err, errHangs) {
				t.Errorf("%s: %v", k, err)
			}
			if raw := i == 2; raw != (err == nil) {
				t.Errorf("%s: %v", k, err)
			}
		}
	}
	<-hanging.begun
	if n := len(hanging.begun); n != 0 {
		t.Errorf("%d more calls hang", n)
	}
	close(hanging.open)
	eventually(t, "the call has returned", func() bool { return e.device.share.hanging.Load() == 0 })
	e.locked(func() bool { e.device.wait = deviceWait; return true })
	sameOutcome(t, e, want)
}

// TestNVJPEGKeepsItsRoom: if the GPU has room for a batch or for making one, but not for both,
// batches are made, and cannot be read there. With room for both, they can.
func TestNVJPEGKeepsItsRoom(t *testing.T) {
	dir := jpegDir(t, 36)
	change := func(o *Options) { o.BatchSize, o.Epochs, o.MemoryWait = 12, 1, time.Hour }
	want := outcome(t, byNVJPEG(t, dir, &fakegpu.GPU{}, change))
	for _, memory := range []int64{4 << 20, 8 << 20} { // a Device takes half of the memory, and a batch takes almost a slab
		g := &fakegpu.GPU{Memory: memory}
		e := byNVJPEG(t, dir, g, change)
		read(t, e, Key{}, layout.NHWCForm)
		for range 2 {
			for i, k := range allKeys(e) {
				f, err := e.Open(t.Context(), k, layout.CUDA)
				switch {
				case memory == 4<<20 && !errors.Is(err, ErrNoMemory):
					t.Errorf("without room for it, %s: %v", k, err)
				case memory > 4<<20 && err != nil:
					t.Error(err)
				case err == nil && string(tensorOf(t, g, f)) != want[i]:
					t.Errorf("%s differs", k)
				}
				if err == nil {
					f.Close()
				}
			}
			sameOutcome(t, e, want)
		}
	}
}

// TestNVJPEGStagingTakesTurns: batches that each need a staging buffer for nvJPEG are made one
// after the other, if there is no room for two batches beside one; an open fails at once if there
// is no room for it beside a single batch. Without turns, the attempts would wake one another.
func TestNVJPEGStagingTakesTurns(t *testing.T) {
	if !fakegpu.Kernels {
		t.Skip("SKIPPED: the GPU's kernels need cgo here")
	}
	small, large := openDataset(t, jpegDir(t, 3)), openDataset(t, written(t, 3, madeOnce(colors(1400, 1000))))
	for _, of := range []struct {
		ds   *dataset.Dataset
		room int64
		want error
	}{{small, 14 << 20, ErrNoMemory}, {small, 24 << 20, nil}, {large, 46 << 20, nil}} {
		synctest.Test(t, func(t *testing.T) {
			o := testOptions()
			o.Anonymous, o.PrefetchDepth, o.BatchSize, o.BatchWorkers = true, 0, 1, 2
			o.Transform = resample.Options{Mode: resample.Stretch, Height: 1632, Width: 1632} // 8 MB
			o.MemoryWait, o.MemoryLimit = time.Hour, runtimeBytes+of.room
			addNVJPEG(t, &o, &fakegpu.GPU{Memory: 1 << 30})
			e, err := build(of.ds, o)
			testkit.Must(t, err)
			var reads atomic.Int64
			e.wrapLoaders(func(l loader) loader {
				return faultyLoader{l, func(int64) error {
					if reads.Add(1) > 100 {
						return errors.New("read again and again")
					}
					return nil
				}}
			})
			e.start()
			began := time.Now()
			var readers sync.WaitGroup
			for batch := range 3 {
				readers.Go(func() {
					f, err := e.Open(t.Context(), Key{Batch: batch}, layout.NHWCForm)
					if err == nil {
						f.Close()
					}
					if !errors.Is(err, of.want) {
						t.Errorf("%d bytes: %v", of.room, err)
					}
				})
			}
			if readers.Wait(); time.Since(began) > time.Minute {
				t.Error("a memory wait passed")
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
