package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// picture returns the pixels of test image i. Any two images differ in most bytes.
func picture(i, h, w int) []byte {
	p := make([]byte, h*w*3)
	_, _ = rand.NewChaCha8([32]byte{byte(i), byte(i >> 8)}).Read(p) // never fails
	return p
}

func writePPM(t testing.TB, path string, h, w int, pixels []byte) {
	t.Helper()
	testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	head := fmt.Sprintf("P6\n%d %d\n255\n", w, h)
	writeFile(t, path, append([]byte(head), pixels...))
}

func writeFile(t testing.TB, path string, data []byte) {
	t.Helper()
	testkit.Must(t, os.WriteFile(path, data, 0o600))
}

func contents(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	testkit.Must(t, err)
	return data
}

// testSize is the size of test image i. Sizes vary, so that batches differ in shape.
func testSize(i int) (h, w int) { return 3 + i%5, 4 + i%3 }

func samplePath(dir string, i int) string {
	return filepath.Join(dir, fmt.Sprintf("class-%d", i%2), fmt.Sprintf("%03d.ppm", i))
}

// testDir writes n images in two classes. The even images come first in the sample ids.
func testDir(t testing.TB, n int) string {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		h, w := testSize(i)
		writePPM(t, samplePath(dir, i), h, w, picture(i, h, w))
	}
	return dir
}

// number returns the image that is sample id of testDir(n).
func number(n int, id int64) int {
	even := (n + 1) / 2
	if int(id) < even {
		return int(id) * 2
	}
	return (int(id)-even)*2 + 1
}

// indexes is where the tests keep indexes, since many open a dataset several times.
var indexes string

func TestMain(m *testing.M) {
	var err error
	if indexes, err = os.MkdirTemp("", "indexes"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(indexes)
	os.Exit(code)
}

func openDataset(t testing.TB, dir string) *dataset.Dataset {
	t.Helper()
	ds, err := dataset.Open(context.Background(), dir, dataset.Options{Workers: 2, Prober: sample.Probe, CacheDir: indexes})
	testkit.Must(t, err)
	t.Cleanup(func() { ds.Close() })
	return ds
}

func testOptions() Options {
	return Options{
		Options: catalog.Options{
			Config: shard.Config{Shards: 1, BatchSize: 4, PadLastBatch: true}, Epochs: 3, Decoding: decode.Options{MaxPixels: 1 << 28},
		},
		Workers: 2, BatchWorkers: 2, PrefetchDepth: 2, MemoryLimit: 256 << 20,
	}
}

func start(t testing.TB, dir string, change ...func(*Options)) *Engine {
	t.Helper()
	e := built(t, dir, change...)
	e.start()
	return e
}

// built is an engine whose workers are not running yet, so that the test can change it before it
// starts them.
func built(t testing.TB, dir string, change ...func(*Options)) *Engine {
	t.Helper()
	o := testOptions()
	for _, f := range change {
		f(&o)
	}
	e, err := build(openDataset(t, dir), o)
	testkit.Must(t, err)
	t.Cleanup(func() { e.Close() })
	return e
}

// inBubble runs a test of an engine on a clock that advances when all goroutines wait.
func inBubble(t *testing.T, ds *dataset.Dataset, change func(*Options), test func(t *testing.T, e *Engine)) {
	synctest.Test(t, func(t *testing.T) {
		o := testOptions()
		o.Anonymous = true
		change(&o)
		e, err := New(ds, o)
		testkit.Must(t, err)
		defer e.Close()
		test(t, e)
	})
}

// wrapLoaders makes an engine that is not started yet use other loaders.
func (e *Engine) wrapLoaders(wrap func(loader) loader) {
	real := e.flow.newLoader
	e.flow.newLoader = func(o pixels.Options, entries *sample.Entries) loader { return wrap(real(o, entries)) }
}

func read(t testing.TB, e *Engine, k Key, form layout.Form) []byte {
	t.Helper()
	f := open(t, e, k, form)
	defer f.Close()
	return bytes.Clone(f.Bytes())
}

// want computes a batch from its specification alone.
func want(t testing.TB, e *Engine, n int, k Key, fill byte) []byte {
	t.Helper()
	slots, _ := e.catalog.Plan.Batch(k.Shard, k.Epoch, k.Batch, nil)
	H, W := 1, 1
	for _, s := range slots {
		h, w := testSize(number(n, s.ID))
		H, W = max(H, h), max(W, w)
	}
	var out []byte
	for _, s := range slots {
		i := number(n, s.ID)
		h, w := testSize(i)
		p := picture(i, h, w)
		for y := range H {
			row := bytes.Repeat([]byte{fill}, W*3)
			if y < h {
				copy(row, p[y*w*3:(y+1)*w*3])
			}
			out = append(out, row...)
		}
	}
	return out
}

func allKeys(e *Engine) (keys []Key) {
	for s := range e.catalog.Options.Shards {
		for epoch := range e.catalog.Options.Epochs {
			for b := range e.catalog.Plan.Batches(s, epoch) {
				keys = append(keys, Key{Shard: s, Epoch: epoch, Batch: b})
			}
		}
	}
	return keys
}

// TestBytesDependOnNothingElse: each element of a batch is that of the contract, in every form,
// whatever the number of workers, the depth of prefetching, the dtype and the layout are, and in
// whatever order batches are read.
func TestBytesDependOnNothingElse(t *testing.T) {
	const n = 23
	dir := testDir(t, n)
	for turn := range 12 {
		e := start(t, dir, func(o *Options) {
			o.Workers, o.PrefetchDepth, o.BatchWorkers = 1+7*(turn%2), []int{0, 1, 4}[turn%3], 1+turn%3
			o.DType, o.Layout = []layout.DType{layout.Uint8, layout.Float16, layout.BFloat16, layout.Float32}[turn/3], layout.Order(turn%2)
			o.Shuffle, o.Anonymous, o.Shards, o.Fill = turn > 0, turn%4 == 0, 2, 7
			if o.DType != layout.Uint8 {
				o.Normalize = layout.Normalization{Mean: slices.Repeat([]float64{127.5}, 3), Std: slices.Repeat([]float64{64}, 3)}
			}
		})
		keys, exact := allKeys(e), map[Key][]byte{}
		for _, k := range keys {
			exact[k] = elements(want(t, e, n, k, 7), e.opts.DType)
		}
		for i, order := range [][]int{forwards(len(keys)), backwards(len(keys)), rand.New(rand.NewPCG(1, 1)).Perm(len(keys))} {
			for _, at := range order {
				checkForm(t, e, keys[at], []layout.Form{layout.NHWCForm, layout.NPY, layout.NCHWForm}[i], exact[keys[at]])
			}
		}
		for _, k := range keys {
			checkForms(t, e, k, exact[k])
		}
		readTogether(t, e, keys, exact)
	}
}

// elements converts bytes as TestBytesDependOnNothingElse normalizes them: float32 and float16
// represent the quotients exactly, and bfloat16 does not.
func elements(from []byte, t layout.DType) (out []byte) {
	if t == layout.Uint8 {
		return from
	}
	for _, v := range from {
		bits := math.Float32bits((float32(v) - 127.5) / 64)
		switch t {
		case layout.Float32:
			out = binary.LittleEndian.AppendUint32(out, bits)
		case layout.BFloat16:
			out = binary.LittleEndian.AppendUint16(out, uint16((bits+0x7fff+bits>>16&1)>>16))
		case layout.Float16: // another bias and fewer mantissa bits: never 0, nothing is lost
			out = binary.LittleEndian.AppendUint16(out, uint16(bits>>16&0x8000|(bits&0x7fffffff-(127-15)<<23)>>13))
		}
	}
	return out
}

// checkForms checks all large forms of a batch against its elements in the order NHWC.
func checkForms(t *testing.T, e *Engine, k Key, nhwc []byte) {
	t.Helper()
	for _, f := range layout.Forms() {
		if f.Large() { // others are rendered by fusefs
			checkForm(t, e, k, f, nhwc)
		}
	}
}

func checkForm(t *testing.T, e *Engine, k Key, f layout.Form, nhwc []byte) {
	t.Helper()
	got, spec := read(t, e, k, f), e.catalog.Spec(k)
	if int64(len(got)) != e.catalog.Size(k, f) {
		t.Fatalf("%s.%s has %d bytes, Size says %d", k, f.Ext(), len(got), e.catalog.Size(k, f))
	}
	elements := nhwc
	if f.OrderOf(e.opts.Layout) == layout.NCHW {
		elements = make([]byte, len(nhwc))
		layout.Turn(elements, layout.NCHW, nhwc, layout.Spec{N: spec.N, H: spec.H, W: spec.W, C: spec.C, DType: spec.DType}, 0)
	}
	if f.Tensor() && !bytes.Equal(got[layout.DataOffset(f, spec):], elements) {
		t.Fatalf("%s.%s has other elements", k, f.Ext())
	}
}

func forwards(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return order
}

func backwards(n int) []int {
	order := forwards(n)
	for i := range order {
		order[i] = n - 1 - i
	}
	return order
}

// readTogether runs eight readers, each of which reads everything in its own order.
func readTogether(t *testing.T, e *Engine, keys []Key, exact map[Key][]byte) {
	var wait sync.WaitGroup
	for reader := range uint64(8) {
		wait.Go(func() {
			order := forwards(len(keys))
			if reader%2 == 1 {
				order = rand.New(rand.NewPCG(reader, 2)).Perm(len(keys))
			}
			for _, at := range order {
				f, err := e.Open(context.Background(), keys[at], layout.NHWCForm)
				if err != nil {
					t.Error(err)
					return
				}
				if !bytes.Equal(f.Bytes(), exact[keys[at]]) {
					t.Errorf("%s differs", keys[at])
				}
				f.Close()
			}
		})
	}
	wait.Wait()
}

func TestOneDecodeServesEveryone(t *testing.T) {
	e := start(t, testDir(t, 8), func(o *Options) { o.BatchSize, o.PrefetchDepth = 8, 0 })
	var wait sync.WaitGroup
	for i := range 16 {
		wait.Go(func() {
			form := []layout.Form{layout.NHWCForm, layout.NPY, layout.NCHWForm, layout.SafeTensors, layout.PNG}[i%5]
			f, err := e.Open(context.Background(), Key{}, form)
			if err != nil {
				t.Error(err)
				return
			}
			f.Close()
		})
	}
	wait.Wait()
	read(t, e, Key{}, layout.NPY) // and shortly after
	if s := e.Stats(); s.Batches.Decoded != 1 || s.Storage.Reads != 8 {
		t.Errorf("%d batches made, %d samples read; want 1 and 8", s.Batches.Decoded, s.Storage.Reads)
	}
	if b := e.Stats().Batches; b.Opened != 17 || b.Stalled < 1 || b.Stalled > 16 || b.Waiting != 0 {
		t.Errorf("of 17 opens, %d succeeded after %d waits, and %d wait", b.Opened, b.Stalled, b.Waiting)
	}
}

func TestPrefetchKeepsToItsDepth(t *testing.T) {
	e := start(t, testDir(t, 40), func(o *Options) { o.PrefetchDepth, o.Epochs = 3, 2 })
	keys := allKeys(e)
	for i, k := range keys {
		read(t, e, k, layout.NHWCForm)
		left := len(keys) - 1 - i
		if ahead := e.Stats().Batches.Ahead; ahead > 3 || ahead < int64(min(3, left)) {
			t.Fatalf("after %s: %d batches ahead, want %d", k, ahead, min(3, left))
		}
	}
	// Everything was read once, in order, across the end of the epoch, so it was made once.
	if s := e.Stats(); s.Batches.Decoded != int64(len(keys)) || s.Batches.Streams != 1 {
		t.Errorf("%d batches made for %d read, in %d streams", s.Batches.Decoded, len(keys), s.Batches.Streams)
	}
}

func TestIdleStreamsGiveTheirBatchesBack(t *testing.T) {
	dir := testDir(t, 40)
	ds := openDataset(t, dir)
	inBubble(t, ds, func(o *Options) { o.Shards = 2 }, func(t *testing.T, e *Engine) {
		f := open(t, e, Key{Shard: 1}, layout.NHWCForm)
		read(t, e, Key{}, layout.NHWCForm)
		synctest.Wait()
		if s := e.Stats(); s.Batches.Ahead != 4 || s.Memory.Batches == 0 {
			t.Fatalf("%d batches ahead in %d bytes", s.Batches.Ahead, s.Memory.Batches)
		}
		time.Sleep(2 * defaultIdle) // the bubble's clock, not real time
		synctest.Wait()
		if n, left := e.Stats().Batches.Streams, e.memory.pool.Trim(); n != 1 || left != 0 {
			t.Errorf("beside an open batch, %d streams and %d idle bytes remain", n, left)
		}
		read(t, e, Key{Shard: 1, Batch: 1}, layout.NHWCForm)
		time.Sleep(2 * defaultIdle)
		f.Close() // its stream has ended
		time.Sleep(2 * defaultIdle)
		synctest.Wait()
		if s := e.Stats(); s.Batches.Streams != 0 || s.Memory.Batches != 0 {
			t.Errorf("%d streams and %d bytes of batches remain", s.Batches.Streams, s.Memory.Batches)
		}
	})
}

// corrupt makes test image i unreadable.
func corrupt(t testing.TB, dir string, i int) {
	t.Helper()
	h, w := testSize(i)
	writePPM(t, samplePath(dir, i), h, w, picture(i, h, w)[:5])
}

// logLines counts the lines of an error log that contain s.
func logLines(log []byte, s string) int { return strings.Count(string(log), s) }

func TestFailPolicy(t *testing.T) {
	dir := testDir(t, 16)
	corrupt(t, dir, 6)
	var log bytes.Buffer
	var mu sync.Mutex
	e := start(t, dir, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil)) })
	bad := Key{Batch: 0} // ids 0..3 are images 0, 2, 4, 6
	for range 3 {
		if _, err := e.Open(context.Background(), bad, layout.NHWCForm); !errors.Is(err, ErrBad) || !strings.Contains(err.Error(), "006.ppm") {
			t.Fatalf("error %v, want ErrBad that names the file", err)
		}
	}
	read(t, e, Key{Batch: 1}, layout.NHWCForm)
	mu.Lock()
	lines := logLines(log.Bytes(), "006.ppm")
	mu.Unlock()
	if list := e.Errors(); len(list) != 1 || !strings.HasSuffix(list[0].Path, "006.ppm") || list[0].ID != 3 || lines != 1 {
		t.Errorf("%d lines in the log, and the list %+v, want one each", lines, list)
	}
	if d, err := e.Describe(context.Background(), bad); err != nil || len(d.Samples) != 4 {
		t.Errorf("labels of a bad batch: %v", err)
	}
	// Until the file changes.
	h, w := testSize(6)
	writePPM(t, samplePath(dir, 6), h, w, picture(6, h, w))
	if got := read(t, e, bad, layout.NHWCForm); !bytes.Equal(got, want(t, e, 16, bad, 0)) {
		t.Error("the mended batch has other bytes")
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func samplesOf(t *testing.T, e *Engine, k Key) []catalog.Sample {
	t.Helper()
	d, err := e.Describe(context.Background(), k)
	testkit.Must(t, err)
	return d.Samples
}

// TestEachBadSampleOfABatchIsReported: if a batch fails, all of its bad samples are reported, with
// one worker or many, and only once, however often the batch is opened.
func TestEachBadSampleOfABatchIsReported(t *testing.T) {
	const n = 8
	for _, workers := range []int{1, 4} {
		dir := testDir(t, n)
		for id := range int64(3) {
			corrupt(t, dir, number(n, id)) // in batch 0, where sample 3 is fine
		}
		writeFile(t, samplePath(dir, number(n, 1)), nil) // bad according to the index
		e := start(t, dir, func(o *Options) { o.Workers, o.PrefetchDepth = workers, 0 })
		reads := int64(0)
		for i := range 3 {
			fails(t, e, Key{}, layout.NHWCForm, ErrBad)
			if now := e.Stats().Storage.Reads; i == 0 {
				reads = now
			} else if now != reads {
				t.Errorf("%d workers: %d reads of a batch that is known to fail", workers, now-reads)
			}
			if told := e.bad.total(); told != 3 {
				t.Errorf("%d workers: %d of 3 bad samples are reported: %+v", workers, told, e.Errors())
			}
		}
		read(t, e, Key{Batch: 1}, layout.NHWCForm)
	}
}

func TestCloseWhileOpensWait(t *testing.T) {
	dir := testDir(t, 80)
	e := start(t, dir)
	held := open(t, e, Key{}, layout.NHWCForm)
	kept := bytes.Clone(held.Bytes())
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for b := range 20 {
				f, err := e.Open(context.Background(), Key{Epoch: i % 3, Batch: b}, layout.NHWCForm)
				if err != nil {
					if !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
					return
				}
				f.Close()
			}
		})
	}
	e.Close()
	wait.Wait()
	if !bytes.Equal(held.Bytes(), kept) {
		t.Error("an open file lost its bytes at Close")
	}
	held.Close()
	if _, used := e.memory.ledger.usage(useBatches); used < 0 {
		t.Error("negative account")
	}
	if n, _ := e.memory.ledger.usage(useBatches); n != 0 {
		t.Errorf("%d bytes of batches remain", n)
	}
}

func TestWhatDoesNotExist(t *testing.T) {
	e := start(t, testDir(t, 8))
	fails(t, e, Key{}, layout.CUDA, ErrNotExist) // without a GPU
	for _, k := range []Key{{Shard: 1}, {Shard: -1}, {Epoch: 3}, {Epoch: -1}, {Batch: 2}, {Batch: -1}} {
		fails(t, e, k, layout.NHWCForm, ErrNotExist)
		if _, err := e.Describe(context.Background(), k); !errors.Is(err, ErrNotExist) {
			t.Errorf("%v: error %v, want ErrNotExist", k, err)
		}
	}
}

func TestOptionsNameTheirMistake(t *testing.T) {
	ds := openDataset(t, testDir(t, 8))
	for name, change := range map[string]func(*Options){
		"shards":        func(o *Options) { o.Shards = 9 },
		"batch size":    func(o *Options) { o.BatchSize = 0 },
		"epochs":        func(o *Options) { o.Epochs = 0 },
		"workers":       func(o *Options) { o.Workers = 0 },
		"batch workers": func(o *Options) { o.BatchWorkers = 0 },
		"prefetch":      func(o *Options) { o.PrefetchDepth = -1 },
		"memory limit":  func(o *Options) { o.MemoryLimit = 0 },
		"max pixels":    func(o *Options) { o.Decoding.MaxPixels = 0 },
		"size":          func(o *Options) { o.Transform.Height = 5 },
		"large enough":  func(o *Options) { o.Transform.Height, o.Transform.Width = 4, 4 },
	} {
		o := testOptions()
		change(&o)
		if e, err := New(ds, o); err == nil {
			e.Close()
			t.Errorf("%s: no error", name)
		} else if !strings.Contains(err.Error(), name) {
			t.Errorf("%s: the error does not say so: %v", name, err)
		}
	}
}
