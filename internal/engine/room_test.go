package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// sides are the sizes of images and masks.
var sides = []int{25, 30, 350, 100, 150, 200, 30, 200, 650}

const stressed = 18 // images

// sizesDir has images that take from 2 KB to 1.3 MB of pixels, up to 370 KB of them as they are in
// their files, and one that is cut off.
func sizesDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for i := range stressed {
		side := sides[i%len(sides)]
		img := image.NewRGBA(image.Rect(0, 0, side, side))
		for p := range img.Pix {
			img.Pix[p] = byte(i + p*p>>9)
		}
		img.SetRGBA(0, 0, color.RGBA{byte(i), 0, 0, 255})
		var data bytes.Buffer
		switch ext := []string{"png", "jpg", "ppm"}[i%3]; {
		case ext == "ppm" && side < 500:
			writePPM(t, filepath.Join(dir, fmt.Sprintf("%02d.ppm", i)), side, side, picture(i, side, side))
			continue
		case ext == "png":
			testkit.Must(t, (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&data, img))
			writeFile(t, filepath.Join(dir, fmt.Sprintf("%02d.png", i)), data.Bytes())
		default:
			testkit.Must(t, jpeg.Encode(&data, img, nil))
			if i == 4 {
				data.Truncate(data.Len() / 3)
			}
			writeFile(t, filepath.Join(dir, fmt.Sprintf("%02d.jpg", i)), data.Bytes())
		}
	}
	return dir
}

// wideArrays writes arrays to a folder, for samples with these numbers. lengths are their numbers
// of rows, of 8 bytes each.
func wideArrays(t *testing.T, root string, lengths []int) (ds *dataset.Dataset, rows []int32, like layout.NPYHeader) {
	t.Helper()
	var list strings.Builder
	for id, n := range lengths {
		name := fmt.Sprintf("%02d.npy", id)
		header := fmt.Sprintf("{'descr': '|u1', 'fortran_order': False, 'shape': (%d, 8), }\n", n)
		file := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header)))
		file = append(append(file, header...), bytes.Repeat([]byte{byte(id)}, 8*n)...)
		writeFile(t, filepath.Join(root, name), file)
		fmt.Fprintf(&list, "{\"path\":%q}\n", name)
		rows = append(rows, int32(id))
	}
	manifest := filepath.Join(root, "m.jsonl")
	writeFile(t, manifest, []byte(list.String()))
	ds, err := dataset.Open(t.Context(), manifest, dataset.Options{Workers: 2, Prober: sample.ProbeArray})
	testkit.Must(t, err)
	t.Cleanup(func() { ds.Close() })
	if like, err = sample.ArrayLike(t.Context(), ds, rows); err != nil {
		t.Fatal(err)
	}
	return ds, rows, like
}

// TestArrayThatNeverFits: an array for which the memory limit has no room beside its batch is
// refused at once.
func TestArrayThatNeverFits(t *testing.T) {
	dir, root := testDir(t, 2), t.TempDir()
	ds, rows, like := wideArrays(t, root, []int{1 << 20, 1 << 20})
	e := start(t, dir, func(o *Options) {
		o.Arrays = []*catalog.ArrayOptions{{Name: "wide", Dataset: ds, Rows: rows, Like: like}}
		o.BatchSize, o.MemoryWait, o.MemoryLimit = 1, time.Hour, runtimeBytes+12<<20
	})
	for _, form := range []layout.Form{layout.ArrayForm(0), layout.SafeTensors} {
		if _, err := e.Open(t.Context(), Key{}, form); !errors.Is(err, ErrNoMemory) || !strings.Contains(err.Error(), "beside its batch") {
			t.Errorf("%v", err)
		}
	}
}

// TestLargeArraysOneAfterTheOther: two batches of large arrays, only one of which can be made at a
// time, do not wait for one another. In the bubble, that would be a memory wait that passes at
// once.
func TestLargeArraysOneAfterTheOther(t *testing.T) {
	ds, rows, like := wideArrays(t, t.TempDir(), []int{1 << 20, 1 << 20})
	o := testOptions()
	o.Arrays = []*catalog.ArrayOptions{{Name: "wide", Dataset: ds, Rows: rows, Like: like}}
	o.BatchSize, o.Anonymous, o.PrefetchDepth = 1, true, 0
	o.MemoryWait, o.MemoryLimit = time.Hour, runtimeBytes+20<<20
	images := openDataset(t, testDir(t, 2))
	synctest.Test(t, func(t *testing.T) {
		e, err := New(images, o)
		testkit.Must(t, err)
		var readers sync.WaitGroup
		for batch := range 2 {
			readers.Go(func() { read(t, e, Key{Batch: batch}, layout.ArrayForm(0)) })
		}
		readers.Wait()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestOnlyLoadKeepsTheLimit: the only load is admitted under a lowered limit, but not beyond the
// one that the ledger began with: loads whose reads hang may have what is left for one.
func TestOnlyLoadKeepsTheLimit(t *testing.T) {
	l := newLedger(1 << 20)
	if !l.reserve(useBatches, l.limit-l.load-l.drawing) {
		t.Fatal("there is no room for batches")
	}
	l.setLimit(1)
	for i, want := range []bool{true, false} {
		if ok := l.admitLoad(l.load, 0, true); ok != want {
			t.Errorf("load %d is admitted: %t", i, ok)
		}
	}
}

// mostOf is the most memory that a sample takes while it is made.
func mostOf(t *testing.T, e *Engine) (most int64) {
	t.Helper()
	for i := range e.catalog.Dataset.Len() {
		l := newLoad(e.batches)
		e.flow.hungReads.loads = append(e.flow.hungReads.loads, l)
		l.item.batch = &batch{content: content{slots: []shard.Slot{{ID: int64(i)}}, spec: e.catalog.Spec(Key{})}}
		l.item.id = int64(i)
		_ = l.fetch() // a bad one is read, too
		most = max(most, l.input.charged+l.sample.needs)
		e.flow.recycle(l)
	}
	return most
}

// TestCopyWaitsWithNothingHeld: an open that waits for the memory of a copy does not hold the
// batch, which may give way to others meanwhile. The open starts again then.
func TestCopyWaitsWithNothingHeld(t *testing.T) {
	const n = 64
	for _, gone := range []bool{false, true} {
		e := start(t, testDir(t, n), alone, func(o *Options) { o.MemoryWait = time.Hour })
		read(t, e, Key{}, layout.NHWCForm)
		exhaust(e)
		opened := make(chan *File)
		go func() {
			f, err := e.Open(context.Background(), Key{}, layout.NCHWForm)
			if err != nil {
				t.Error(err)
			}
			opened <- f
		}()
		source := e.batches.table[Key{}]
		eventually(t, "the copy waits", func() bool {
			return e.locked(func() bool { c := source.copies[layout.NCHWForm]; return c != nil && c.refused() })
		})
		e.locked(func() bool {
			if source.refs != 0 {
				t.Errorf("%d hold the batch", source.refs)
			}
			if gone {
				e.discard(source)
			}
			return true
		})
		e.SetMemoryLimit(1 << 40)
		f := <-opened
		if f == nil {
			continue
		}
		if isCopy := f.batch.source != nil; isCopy == gone {
			t.Errorf("gone: %t: it is a copy: %t", gone, isCopy)
		}
		checkForms(t, e, Key{}, want(t, e, n, Key{}, 0))
		f.Close()
	}
}

// TestMemoryOfAReader: a reader's batches take memory for those made ahead, the open one, and the
// one before that, which gives way to anything else. This does not depend on the number of workers
// and loads.
func TestMemoryOfAReader(t *testing.T) {
	dir := jpegDir(t, 48)
	for _, workers := range []int{1, 8, 32} {
		for _, depth := range []int{0, 1, 4} {
			e := start(t, dir, func(o *Options) {
				o.Workers, o.BatchWorkers, o.Loads, o.PrefetchDepth, o.BatchSize, o.Epochs = workers, workers, 4*workers, depth, 4, 1
			})
			size, most, page := e.catalog.TensorSize(), int64(0), int64(os.Getpagesize())
			for _, k := range allKeys(e) {
				f := open(t, e, k, layout.NHWCForm)
				most = max(most, e.batchBytes())
				f.Close()
			}
			if limit := int64(depth+2) * ((size + page - 1) / page * page); most > limit {
				t.Errorf("%d workers, %d ahead: %d bytes of batches, %d are enough", workers, depth, most, limit)
			}
			e.Close()
		}
	}
}

// TestBatchMadeAheadIsGivenUp: a batch that no Open waits for is given up if there is no memory for
// one of its samples, even when nothing else is being made. Another batch waits.
func TestBatchMadeAheadIsGivenUp(t *testing.T) {
	for _, opened := range []bool{false, true} {
		e := unstarted(t, 64, func(o *Options) { o.MemoryWait = time.Hour })
		var b *batch
		if opened {
			b = e.ask(Key{})
		} else {
			e.locked(func() bool { b = e.newBatch(Key{}, layout.NHWCForm); return true })
		}
		own(t, e)
		l, ledger := claimed(t, e), e.memory.ledger
		_, sum := ledger.usage(useBatches)
		ledger.setLimit(sum + ledger.load + ledger.drawing)
		l.item.asks = amount{drawing: ledger.load + ledger.drawing + 1}
		l.ended(errNoRoom)
		e.start()
		eventually(t, "it is decided", func() bool {
			return e.locked(func() bool {
				return b.state == failed || opened && e.flow.isIdle() && len(e.flow.room.waiting) == 1
			})
		})
		if failed := b.state == failed; failed == opened {
			t.Errorf("opened: %t: given up: %t", opened, failed)
		}
		ledger.setLimit(e.memory.ledger.most)
	}
}

// TestReplacementsTakeTurns: batches whose bad samples are replaced by one that is far larger than
// the index lets expect are made one after the other, if there is no room for two beside it. One
// that gives way keeps its turn: it is not made after all that others read meanwhile.
func TestReplacementsTakeTurns(t *testing.T) {
	const each = 4 // batches that the first and the last reader read
	growing, err := growing()
	testkit.Must(t, err)
	dir := t.TempDir()
	for i := range 2*each + 1 {
		var data bytes.Buffer
		testkit.Must(t, png.Encode(&data, image.NewGray(image.Rect(0, 0, 100, 100))))
		data.Bytes()[data.Len()/2] ^= 0xff
		writeFile(t, filepath.Join(dir, fmt.Sprintf("%d.png", i)), data.Bytes())
	}
	writeFile(t, filepath.Join(dir, "x.png"), growing[1]) // takes 22 MB
	ds := openDataset(t, dir)
	synctest.Test(t, func(t *testing.T) {
		o := testOptions()
		o.Anonymous, o.PrefetchDepth, o.BatchSize, o.BatchWorkers, o.OnError = true, 0, 1, 2, Replace
		o.Transform = resample.Options{Mode: resample.Stretch, Height: 1632, Width: 1632} // 8 MB
		o.MemoryWait, o.MemoryLimit = time.Hour, runtimeBytes+34<<20
		e, err := build(ds, o)
		testkit.Must(t, err)
		e.wrapLoaders(func(l loader) loader {
			return faultyLoader{l, func(int64) error {
				time.Sleep(stallAfter / 4) // two have begun
				return nil
			}}
		})
		e.start()
		var readers sync.WaitGroup
		var next, others atomic.Int64
		next.Store(-1)
		one := func() { read(t, e, Key{Batch: int(next.Add(1))}, layout.NHWCForm) }
		for i := range 3 {
			readers.Go(func() {
				if i == 1 {
					if one(); others.Load() > 2 {
						t.Errorf("%d others were made before the second one", others.Load())
					}
					return
				}
				for range each {
					one()
					others.Add(1)
				}
			})
			synctest.Wait() // it has asked
		}
		readers.Wait()
		if n := e.Stats().Memory.Peak; n > o.MemoryLimit {
			t.Errorf("%d bytes were used of %d", n, o.MemoryLimit)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestCopiesWaitTheirTurn: what a sample of a batch waits for is not taken by copies of another
// batch, that are opened later, one after the other.
func TestCopiesWaitTheirTurn(t *testing.T) {
	growing, err := growing()
	testkit.Must(t, err)
	dir := t.TempDir()
	var data bytes.Buffer
	testkit.Must(t, png.Encode(&data, image.NewGray(image.Rect(0, 0, 100, 100))))
	writeFile(t, filepath.Join(dir, "0.png"), data.Bytes())
	writeFile(t, filepath.Join(dir, "x.png"), growing[1]) // takes 22 MB
	inBubble(t, openDataset(t, dir), func(o *Options) {
		o.PrefetchDepth, o.BatchSize, o.BatchWorkers = 0, 1, 2
		o.Transform = resample.Options{Mode: resample.Stretch, Height: 1632, Width: 1632} // 8 MB
		o.MemoryWait, o.MemoryLimit = time.Hour, runtimeBytes+43<<20
	}, func(t *testing.T, e *Engine) {
		source := open(t, e, Key{}, layout.NHWCForm)
		var readers sync.WaitGroup
		var later atomic.Int64
		for i, form := range []layout.Form{layout.NCHWForm, layout.NPY, layout.SafeTensors} {
			readers.Go(func() {
				time.Sleep(time.Duration(2*i) * time.Millisecond)
				for range 20 {
					f := open(t, e, Key{}, form)
					time.Sleep(6 * time.Millisecond)
					f.Close()
					later.Add(1)
				}
			})
		}
		time.Sleep(7 * time.Millisecond)
		read(t, e, Key{Batch: 1}, layout.NHWCForm)
		if n := later.Load(); n > 6 {
			t.Errorf("%d copies were made before it", n)
		}
		readers.Wait()
		source.Close()
	})
}
