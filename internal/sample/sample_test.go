package sample

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"path/filepath"
	"sync"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/testkit"
)

// open opens a dataset of these files, or of the manifest among them.
func open(t *testing.T, f files, manifest string) *dataset.Dataset {
	t.Helper()
	dir := t.TempDir()
	err := f.write(dir)
	testkit.Must(t, err)
	o := dataset.Options{Prober: Probe, CacheDir: filepath.Join(t.TempDir(), "cache")}
	ds, err := dataset.Open(t.Context(), filepath.Join(dir, manifest), o)
	testkit.Must(t, err)
	t.Cleanup(func() { ds.Close() })
	return ds
}

func pngOf(t *testing.T, h, w int) []byte {
	t.Helper()
	var b bytes.Buffer
	testkit.Must(t, (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, image.NewGray(image.Rect(0, 0, w, h))))
	return b.Bytes()
}

// TestReadersShareMemory: any number of readers together never take more than there is, and
// all of it comes back, even if samples cannot be read.
func TestReadersShareMemory(t *testing.T) {
	files := map[string][]byte{"bad.png": []byte("rubbish"), "cut.png": pngOf(t, 900, 1000)[:60]}
	for i := range 12 {
		files[fmt.Sprintf("%02d.png", i)] = pngOf(t, 100+i, 200)
	}
	ds := open(t, files, "")
	memory := NewMemory(0, 8)
	var wait sync.WaitGroup
	var mu sync.Mutex
	taken, good, bad := int64(0), 0, 0
	for w := range 8 {
		wait.Go(func() {
			r := NewReader(ds, decode.Options{MaxPixels: 1 << 28}, memory)
			defer r.Close()
			for i := w; i < ds.Len(); i += 8 {
				img, err := r.Read(t.Context(), i, 20<<20) // so that two fit
				if needs := int64(len(img.Data)+3*img.Height*img.Width) + 20<<20; err == nil && r.taken < needs {
					t.Errorf("%d bytes are taken, and the sample needs %d", r.taken, needs)
				}
				mu.Lock()
				if taken += r.taken; taken > memory.size {
					t.Errorf("%d bytes are taken of %d", taken, memory.size)
				}
				mu.Unlock()
				if err == nil {
					err = r.Decode(img)
				}
				mu.Lock()
				taken -= r.taken
				if good++; err != nil {
					good, bad = good-1, bad+1
				}
				mu.Unlock()
				if err != nil && fault.Of(err) != fault.File {
					t.Error(err)
				}
				r.Done()
				if r.input.Bytes() > memory.keep || r.pixels.Bytes() > memory.keep || r.decoder.ScratchBytes() > memory.keep {
					t.Errorf("%d and %d bytes are kept", r.input.Bytes(), r.pixels.Bytes())
				}
			}
		})
	}
	wait.Wait()
	if good != 12 || bad != 2 {
		t.Errorf("%d good, %d bad", good, bad)
	}
	if !memory.space.TryAcquire(memory.size) {
		t.Error("not all memory came back")
	}
}

// TestWhatDoesNotFit: a sample that does not fit is refused before memory is allocated, and
// is not judged.
func TestWhatDoesNotFit(t *testing.T) {
	wide := pngOf(t, 4000, 5000) // 60 MB of pixels
	ds := open(t, map[string][]byte{"a.png": wide, "b.png": pngOf(t, 3, 4), "m.csv": []byte("path,height,width,format\na.png,4000,5000,png\nb.png,3,4,png\n")}, "m.csv")
	r := NewReader(ds, decode.Options{MaxPixels: 1 << 28}, NewMemory(64<<20, 1))
	defer r.Close()
	if _, err := r.Read(t.Context(), 0, 0); !errors.Is(err, ErrMemory) || fault.Of(err) == fault.File || r.pixels.Bytes() > 0 {
		t.Errorf("pixels: %v", err)
	}
	if _, err := r.Read(t.Context(), 1, 1<<30); !errors.Is(err, ErrMemory) {
		t.Errorf("beside: %v", err)
	}
	img, err := r.Read(t.Context(), 1, 0)
	if err == nil {
		err = r.Decode(img)
	}
	if err != nil || img.Height != 3 || img.Width != 4 {
		t.Errorf("what fits: %+v, %v", img, err)
	}
}

// TestWaitingForMemoryEnds: waiting for memory ends with the context.
func TestWaitingForMemoryEnds(t *testing.T) {
	ds := open(t, map[string][]byte{"a.png": pngOf(t, 3, 4)}, "")
	memory := NewMemory(0, 1)
	if !memory.space.TryAcquire(memory.size) {
		t.Fatal("there is none")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := NewReader(ds, decode.Options{MaxPixels: 1 << 28}, memory)
	defer r.Close()
	if _, err := r.Read(ctx, 0, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestJudge checks the faults of readable images.
func TestJudge(t *testing.T) {
	ds := open(t, map[string][]byte{"a.png": pngOf(t, 30, 40), "m.csv": []byte("path,height,width,format\na.png,30,40,png\na.png,40,30,png\n")}, "m.csv")
	for name, c := range map[string]struct {
		sample int
		max    int64
		want   error
	}{
		"fine": {0, 1200, nil}, "too large": {0, 1199, decode.ErrTooLarge}, "not what was said": {1, 1200, ErrUnfit},
	} {
		r := NewReader(ds, decode.Options{MaxPixels: c.max}, NewMemory(0, 1))
		img, err := r.Read(t.Context(), c.sample, 0)
		if !errors.Is(err, c.want) || err == nil && (c.want != nil || img.Height != 30) {
			t.Errorf("%s: %+v, %v", name, img, err)
		}
		r.Close()
	}
}
