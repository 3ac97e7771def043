package sample

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/pixels"
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

// TestReadersSharePages: Readers of a dataset in compressed pages unpack each page for one another,
// and the last Reader frees all of them.
func TestReadersSharePages(t *testing.T) {
	block, err := os.ReadFile("../archive/testdata/jpeg.mds.zstd")
	testkit.Must(t, err)
	ds := open(t, map[string][]byte{"a.mds.zstd": block}, "a.mds.zstd")
	memory := NewMemory(0, 4)
	all := memory.pages.budget.left.Load()
	var readers []*Reader
	for range 4 {
		readers = append(readers, NewReader(ds, decode.Options{MaxPixels: 1 << 28}, memory))
	}
	var wait sync.WaitGroup
	for k, r := range readers {
		wait.Go(func() {
			for i := k; i < ds.Len(); i += len(readers) {
				if _, err := r.Fetch(context.Background(), i); err != nil {
					t.Error(err)
				}
				r.Done()
			}
		})
	}
	wait.Wait()
	if s := memory.pages.pages.Stats(); s.Loaded != 1 || s.Served != int64(ds.Len())-1 {
		t.Errorf("%d samples of a block: %+v", ds.Len(), s)
	}
	for _, r := range readers {
		r.Close()
	}
	if ds.KeepsPages() || memory.pages.budget.left.Load() != all {
		t.Errorf("%d bytes are charged at the end", all-memory.pages.budget.left.Load())
	}
}

// TestReadUpToTheCrop: of a JPEG with entry points, the bytes after its crop are not read, however
// long its header is. If rows of the file are not rows of the image, everything is read, and never
// more. Every other time, it is decoded at a reduced scale if it shrinks enough.
func TestReadUpToTheCrop(t *testing.T) {
	img, random := image.NewGray(image.Rect(0, 0, 320, 240)), rand.New(rand.NewPCG(1, 2))
	for i := range img.Pix {
		img.Pix[i] = color.Gray{uint8(random.IntN(256))}.Y
	}
	var plain bytes.Buffer
	testkit.Must(t, jpeg.Encode(&plain, img, nil))
	with := func(segment string) []byte {
		return append(append([]byte("\xff\xd8"), segment...), plain.Bytes()[2:]...)
	}
	turned := func(orientation byte) []byte {
		return with("\xff\xe1\x00\x22Exif\x00\x00II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00" + string([]byte{orientation}) + "\x00\x00\x00\x00\x00\x00\x00")
	}
	all := [][]byte{plain.Bytes(), with("\xff\xe2\x30\x02" + string(make([]byte, 0x3000))), turned(3), turned(6)}
	ds := open(t, files{"0.jpg": all[0], "1.jpg": all[1], "2.jpg": all[2], "3.jpg": all[3]}, "")
	store := openEntries(t, ds)
	defer store.Close()
	known := NewEntries(ds, store, false)
	o := pixels.Options{Options: decode.Options{MaxPixels: 1 << 20}}
	full := o
	full.FullJPEGs = true
	reader := NewReader(ds, o.Options, NewMemory(1<<26, 1))
	defer reader.Close()
	transform := resample.Options{Mode: resample.RandomResizedCrop, Height: 32, Width: 32, CropArea: [2]float64{0.05, 0.3}, CropRatio: [2]float64{0.75, 4.0 / 3}}
	loaders := [2]*Loader{NewLoader(ds, transform, o, known), NewLoader(ds, transform, full, known)}
	for i, data := range all {
		img, err := reader.Read(t.Context(), i, 1)
		testkit.Must(t, err)
		if n, err := reader.MakeEntries(i, img, known); err != nil || n.Made != 1 {
			t.Skipf("no entry points are made here: %+v, %v", n, err)
		}
		less := 0
		for epoch := range 40 {
			known.AllowParts(true)
			got, read, _, err := loaders[epoch%2].Load(t.Context(), epoch, int64(i), false, func(n int) []byte { return make([]byte, n) })
			if err != nil || len(got) != len(data) {
				t.Fatalf("%d: %d bytes, %v", i, len(got), err)
			}
			if read > int64(len(data)) {
				t.Errorf("%d: %d bytes of %d were read", i, read, len(data))
			}
			if read < int64(len(data)) {
				less++
				if !known.Partial() || !bytes.Equal(got[:read], data[:read]) {
					t.Errorf("%d: the first %d bytes differ", i, read)
				}
			}
		}
		if upright := i < 2; upright != (less > 20) || !upright && less > 0 {
			t.Errorf("file %d was not read as a whole %d times of 40", i, less)
		}
	}
}
