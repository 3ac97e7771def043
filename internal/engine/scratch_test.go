package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
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

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
)

// growing are JPEGs that take 6 MB of pixels each, and PNGs that take 13 MB, and as much again
// while they are decoded.
var growing = sync.OnceValues(func() (data [2][]byte, err error) {
	var small, large bytes.Buffer
	err = errors.Join(jpeg.Encode(&small, image.NewGray(image.Rect(0, 0, 1600, 1200)), nil), png.Encode(&large, image.NewGray(image.Rect(0, 0, 2400, 1800))))
	return [2][]byte{small.Bytes(), large.Bytes()}, err
})

// growingDir has two batches: one of four such JPEGs, one of four such PNGs.
func growingDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	data, err := growing()
	for i := range 8 {
		name := fmt.Sprintf("%d.%s", i, []string{"jpg", "png"}[i/4])
		if err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), data[i/4], 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// tiny makes batches that take hardly any memory, from pixels that take much.
func tiny(o *Options) {
	o.PrefetchDepth, o.FullJPEGs = 0, true
	o.Transform.Mode, o.Transform.Height, o.Transform.Width = resample.Stretch, 32, 32
}

// leave sets the memory limit to n bytes more than are in use.
func leave(e *Engine, n int64) {
	_, sum := e.memory.ledger.usage(useScratch)
	e.SetMemoryLimit(sum + n)
}

// TestSmallerImagesGiveRoom: memory that is kept from smaller images does not prevent a larger one
// from being drawn.
func TestSmallerImagesGiveRoom(t *testing.T) {
	e := start(t, growingDir(t), inPairs, tiny)
	leave(e, 23<<20)
	read(t, e, Key{}, layout.NHWCForm)
	read(t, e, Key{Batch: 1}, layout.NHWCForm)
}

// TestNoRoomIsNoLoop: a batch that waits for scratch memory is tried again now and then, but not
// because its own last attempt gave memory back.
func TestNoRoomIsNoLoop(t *testing.T) {
	ds := openDataset(t, growingDir(t))
	for workers := 1; workers <= 3; workers++ {
		synctest.Test(t, func(t *testing.T) {
			o := testOptions()
			tiny(&o)
			o.Workers = workers
			e, err := build(ds, o)
			testkit.Must(t, err)
			defer e.Close()
			var attempts atomic.Int32
			e.wrapLoaders(func(l loader) loader {
				return faultyLoader{l, func(int64) error {
					if attempts.Add(1) > 2000 { // in 10 seconds
						return errors.New("a loop")
					}
					return nil
				}}
			})
			e.start()
			leave(e, 16<<20)
			if _, err := e.Open(t.Context(), Key{Batch: 1}, layout.NHWCForm); !errors.Is(err, ErrNoMemory) || attempts.Load() < 2 {
				t.Errorf("%d workers: after %d attempts: %v", workers, attempts.Load(), err)
			}
		})
	}
}

// TestSampleThatNeverFits: such a sample is refused at once, by name, not after the memory wait.
// Other batches are made.
func TestSampleThatNeverFits(t *testing.T) {
	ds := openDataset(t, growingDir(t))
	inBubble(t, ds, func(o *Options) {
		tiny(o)
		o.MemoryLimit = runtimeBytes + 20<<20 // a JPEG takes 6 MB, a PNG 26 MB
	}, func(t *testing.T, e *Engine) {
		read(t, e, Key{}, layout.NHWCForm)
		began := time.Now()
		_, err := e.Open(t.Context(), Key{Batch: 1}, layout.NHWCForm)
		if !errors.Is(err, ErrNoMemory) || !strings.Contains(err.Error(), ".png") || time.Since(began) > 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		read(t, e, Key{Epoch: 1}, layout.NHWCForm)
	})
}

// TestSampleThatHardlyFits: a sample that fits beside its batch only without the room that is left
// for drawing is refused at once, not after the memory wait.
func TestSampleThatHardlyFits(t *testing.T) {
	dir, buffer := t.TempDir(), pinned.Host{}
	writePPM(t, filepath.Join(dir, "0.ppm"), 1200, 1600, picture(0, 1200, 1600))
	info, err := os.Stat(filepath.Join(dir, "0.ppm"))
	testkit.Must(t, err)
	ds := openDataset(t, dir)
	for _, fits := range []bool{false, true} {
		inBubble(t, ds, tiny, func(t *testing.T, e *Engine) {
			m := e.memory
			m.ledger.most = m.fixed.Load() + buffer.Plan(int(info.Size())) + m.ledger.drawing
			if fits {
				m.ledger.most += 8 << 20 // for the batch, and for drawing
			}
			m.setLimit(m.ledger.most)
			began := time.Now()
			err := opens(e, Key{}, layout.NHWCForm)
			if fits != (err == nil) || !fits && (!errors.Is(err, ErrNoMemory) || !strings.Contains(err.Error(), "0.ppm")) || time.Since(began) > 0 {
				t.Errorf("fits: %t: after %v: %v", fits, time.Since(began), err)
			}
		})
	}
}

// TestSlotsAfterAWait: a batch hands out the rest of its slots once the sample that waited for
// memory has got it, even if that sample turns out to be bad, so that it gives the drawers nothing
// to do.
func TestSlotsAfterAWait(t *testing.T) {
	ds := openDataset(t, testDir(t, 8))
	for _, readsFree := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o := testOptions()
			o.Anonymous, o.BatchSize, o.PrefetchDepth, o.Workers, o.Loads, o.OnError = true, 8, 0, 1, 1, Zero
			e, err := build(ds, o)
			testkit.Must(t, err)
			defer e.Close()
			if readsFree {
				e.flow.ownReads = ownReads{}
			}
			ledger, reads := e.memory.ledger, atomic.Int64{}
			e.wrapLoaders(func(l loader) loader {
				return faultyLoader{l, func(int64) error {
					switch reads.Add(1) {
					case 1:
						ledger.setLimit(1) // there is no room for it now
					case 2:
						ledger.setLimit(o.MemoryLimit)
						return &dataset.FileError{Path: "x", Err: decode.ErrCorrupt}
					}
					return nil
				}}
			})
			e.start()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			f, err := e.Open(ctx, Key{}, layout.NHWCForm)
			if err != nil {
				t.Fatalf("reads are free: %t: after %d reads: %v", readsFree, reads.Load(), err)
			}
			f.Close()
		})
	}
}

// TestKeptBuffersAskForNothing: a sample is not refused because of a buffer that is kept from
// another one: neither because the buffer is large, nor because it would grow by more than the
// sample takes.
func TestKeptBuffersAskForNothing(t *testing.T) {
	data, err := growing()
	testkit.Must(t, err)
	dir := t.TempDir()
	writePPM(t, filepath.Join(dir, "0.ppm"), 1200, 1600, picture(0, 1200, 1600)) // 6 MB
	writePPM(t, filepath.Join(dir, "1.ppm"), 1250, 1700, picture(1, 1250, 1700)) // a little more
	writeFile(t, filepath.Join(dir, "2.png"), data[1])                           // 22 MB of pixels
	ds := openDataset(t, dir)
	for _, growth := range []float64{1, 4} {
		inBubble(t, ds, func(o *Options) {
			tiny(o)
			o.BatchSize, o.Workers, o.Loads, o.Memory.HostGrowth = 1, 1, 1, growth
			o.MemoryLimit = runtimeBytes + 22<<20
		}, func(t *testing.T, e *Engine) {
			for batch := range 3 {
				if err := opens(e, Key{Batch: batch}, layout.NHWCForm); err != nil {
					t.Errorf("growing by %v: batch %d: %v", growth, batch, err)
				}
			}
		})
	}
}
