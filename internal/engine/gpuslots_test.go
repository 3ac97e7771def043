package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/fakegpu"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// tensors returns the pixels of all batches.
func tensors(t *testing.T, e *Engine) map[Key][]byte {
	t.Helper()
	all := map[Key][]byte{}
	for _, k := range allKeys(e) {
		all[k] = read(t, e, k, layout.NHWCForm)
	}
	return all
}

// TestSamplesStayOnTheGPU: samples that the GPU makes for readers there cross the bus only for
// readers of other forms, and are not decoded again for them.
func TestSamplesStayOnTheGPU(t *testing.T) {
	dir := jpegDir(t, 44)
	change := func(o *Options) { o.BatchSize, o.Epochs = 8, 1 }
	want := tensors(t, start(t, dir, change))
	g := &fakegpu.GPU{}
	e := decodingOn(t, dir, g, change)
	size := int(e.catalog.TensorSize())
	open(t, e, Key{}, layout.CUDA).Close() // the first batch, before there is memory on the GPU
	for i := 1; i < 6; i++ {
		testkit.Must(t, e.Quiet(t.Context()))
		put, back := g.Put, g.Back
		f := open(t, e, Key{Batch: i}, layout.CUDA)
		testkit.Must(t, e.Quiet(t.Context()))
		if !bytes.Equal(tensorOf(t, g, f), want[Key{Batch: i}]) {
			t.Errorf("batch %d differs", i)
		}
		if i > 1 && (g.Put != put || g.Back-back >= size) {
			t.Errorf("batch %d: %d bytes to the GPU, %d back", i, g.Put-put, g.Back-back)
		}
		decoded, back := e.Stats().JPEGs.GPU, g.Back
		for range 2 {
			if !bytes.Equal(read(t, e, Key{Batch: i}, layout.NHWCForm), want[Key{Batch: i}]) {
				t.Errorf("batch %d differs in host memory", i)
			}
		}
		if s := e.Stats().JPEGs; i > 2 && (g.Back-back != 2*size || s.GPU != decoded || s.All() > 0) {
			t.Errorf("batch %d: %d bytes back, %d JPEGs decoded again", i, g.Back-back, s.GPU-decoded)
		}
		f.Close()
	}
	if n := e.memory.pool.Stats().Real; n > int64(size+8*stagingUnit) {
		t.Errorf("%d bytes of host memory are in use", n)
	}
}

// anyForms opens batches in all orders, in any form, and compares their pixels. An error is passed
// to check.
func anyForms(t *testing.T, e *Engine, g *fakegpu.GPU, want map[Key][]byte, opens int, check func(layout.Form, error)) {
	t.Helper()
	keys := allKeys(e)
	forms := []layout.Form{layout.CUDA, layout.CUDA, layout.CUDA, layout.NHWCForm, layout.NCHWForm, layout.NPY, layout.SafeTensors, layout.PNG}
	sheets := sync.Map{}
	var wait sync.WaitGroup
	for w := range uint64(3) {
		wait.Go(func() {
			rng := rand.New(rand.NewPCG(w, 7))
			at := 0
			for range opens {
				if at++; rng.IntN(4) == 0 {
					at = rng.IntN(len(keys))
				}
				k, form := keys[at%len(keys)], forms[rng.IntN(len(forms))]
				f, err := e.Open(context.Background(), k, form)
				if err != nil {
					check(form, err)
					continue
				}
				got := f.Bytes()
				switch form {
				case layout.CUDA:
					got = tensorOf(t, g, f)
				case layout.NHWCForm:
				case layout.NPY, layout.SafeTensors:
					got = got[layout.DataOffset(form, f.batch.spec):]
				default:
					if first, _ := sheets.LoadOrStore(fmt.Sprint(k, form), bytes.Clone(got)); !bytes.Equal(got, first.([]byte)) {
						t.Errorf("%s.%s changes", k, form.Ext())
					}
					got = want[k]
				}
				if !bytes.Equal(got[:len(want[k])], want[k]) {
					t.Errorf("%s.%s differs", k, form.Ext())
				}
				f.Close()
			}
		})
	}
	wait.Wait()
}

// TestAnyFormsWithAGPU: all forms can be read while the GPU makes some of the samples, with room
// there for few or many batches.
func TestAnyFormsWithAGPU(t *testing.T) {
	dir := allKinds(t)
	change := func(o *Options) {
		o.BatchSize, o.Epochs, o.OnError, o.Shards, o.MemoryWait = 12, 2, Replace, 2, time.Hour
		o.Transform.Height, o.Transform.Width, o.Transform.Mode = 128, 160, resample.Stretch
	}
	want, opens := tensors(t, start(t, dir, change)), 60
	if testing.Short() {
		opens = 30
	}
	for _, limit := range []int64{0, gpu.SlabUnit, 3 * gpu.SlabUnit} {
		g := &fakegpu.GPU{}
		e := decodingWithin(t, dir, g, limit, change, func(o *Options) { o.MemoryLimit = 96 << 20 })
		anyForms(t, e, g, want, opens, func(form layout.Form, err error) { t.Errorf("%s: %v", form.Ext(), err) })
		if e.Stats().JPEGs.GPU == 0 {
			t.Error("the GPU made nothing")
		}
	}
}

// TestSheetOutlivesItsPlaceOnTheGPU: an open sheet, of a batch that the GPU made, stays when other
// batches take all memory there.
func TestSheetOutlivesItsPlaceOnTheGPU(t *testing.T) {
	dir := jpegDir(t, 160)
	g := &fakegpu.GPU{}
	e := decodingWithin(t, dir, g, 3*gpu.SlabUnit, func(o *Options) {
		o.BatchSize, o.Epochs, o.PrefetchDepth, o.MemoryWait = 8, 1, 1, 300*time.Millisecond
		o.Transform.Height, o.Transform.Width, o.Transform.Mode = 128, 160, resample.Stretch
	})
	for i := range 2 { // the batches that follow are made on the GPU
		open(t, e, Key{Batch: i}, layout.CUDA).Close()
		testkit.Must(t, e.Quiet(t.Context()))
	}
	sheet := open(t, e, Key{Batch: 2}, layout.PNG)
	var err error
	for i := 3; err == nil && i < 20; i++ {
		var f *File
		if f, err = e.Open(t.Context(), Key{Batch: i}, layout.CUDA); err == nil {
			defer f.Close()
		}
	}
	if !errors.Is(err, ErrNoRoomOnGPU) {
		t.Errorf("the GPU is full: %v", err)
	}
	want := bytes.Clone(sheet.Bytes())
	sheet.Close()
	if !bytes.Equal(read(t, e, Key{Batch: 2}, layout.PNG), want) {
		t.Error("another sheet")
	}
}

// TestAnyFormsWhileTheGPUFails has calls fail in turn: once, for good, or as they do when the GPU
// is lost. Opens on the GPU may fail, opens of other forms do not, and no byte changes.
func TestAnyFormsWhileTheGPUFails(t *testing.T) {
	t.Parallel()
	dir := mixedDir(t, 20, 4)
	want := tensors(t, start(t, dir, mixed))
	apart := int32(8)
	if testing.Short() {
		apart = 4
	}
	for at, failed := int32(1), true; failed; at += 1 + at/apart {
		reason := []error{errors.New("CUDA_ERROR_UNKNOWN"), gpu.ErrMemory, gpu.ErrLost}[at%3]
		forGood := at%2 == 0 || reason == gpu.ErrLost
		var calls atomic.Int32
		g := &fakegpu.GPU{Fail: func(call string) error {
			if n := calls.Add(1); n == at || n > at && forGood {
				return fmt.Errorf("%s: %w", call, reason)
			}
			return nil
		}}
		e := decodingOn(t, dir, g, mixed, func(o *Options) { o.PrefetchDepth = 1 })
		anyForms(t, e, g, want, 12, func(form layout.Form, err error) {
			if form != layout.CUDA || !errors.Is(err, reason) {
				t.Errorf("%v at call %d: %s: %v", reason, at, form.Ext(), err)
			}
		})
		e.Close()
		failed = calls.Load() >= at
		if at == 1000 {
			t.Fatal("it goes on and on")
		}
	}
}
