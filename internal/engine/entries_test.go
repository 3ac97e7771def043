package engine

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// jpegDir writes n baseline JPEGs of 200x280 pixels.
func jpegDir(t testing.TB, n int) string {
	t.Helper()
	return written(t, n, smallJPEG)
}

// tinyJPEG has a quarter of the pixels, for tests in which only the number of samples matters.
var smallJPEG, tinyJPEG = madeOnce(colors(280, 200)), madeOnce(colors(140, 100))

func colors(width, height int) func(i int) image.Image {
	return func(i int) image.Image {
		img := image.NewRGBA(image.Rect(0, 0, width, height))
		for y := range height {
			for x := range width {
				img.SetRGBA(x, y, color.RGBA{byte(3*x + i), byte(7*y - x), byte(x ^ y), 255})
			}
		}
		return img
	}
}

// entryPoints opens a dataset with an index in a directory, beside which entry points are kept.
func entryPoints(t testing.TB, dir, cacheDir string) *dataset.Dataset {
	t.Helper()
	if !slices.Contains(decode.Kernels(), decode.Portable) {
		t.Skip("this build's decoder makes no entry points")
	}
	ds, err := dataset.Open(t.Context(), dir, dataset.Options{Workers: 2, Prober: sample.Probe, CacheDir: cacheDir})
	testkit.Must(t, err)
	t.Cleanup(func() { ds.Close() })
	return ds
}

// withEntries makes an engine decode JPEGs with the decoder that makes entry points, whatever the
// processor.
func withEntries(verify bool) func(*Options) {
	return func(o *Options) {
		o.Decoding.Kernel, o.Entries, o.VerifyReads = decode.Portable, decode.EntryRows, verify
	}
}

// large makes batches so large that no JPEG is decoded at a smaller scale.
func large(o *Options) { o.Transform.Height, o.Transform.Width = 120, 160 }

func bytesOf(t *testing.T, e *Engine) []byte {
	t.Helper()
	return bytes.Join(pixelsOf(t, e, layout.NHWCForm), nil)
}

// TestEntryPointsMakeTheSameBytes: entry points are made in the first epoch and used from then on,
// also by later engines. No byte depends on that, in crops or whole images.
func TestEntryPointsMakeTheSameBytes(t *testing.T) {
	const n = 12
	dir, cacheDir := jpegDir(t, n), filepath.Join(t.TempDir(), "cache")
	want := bytesOf(t, transformed(t, openDataset(t, dir), resample.RandomResizedCrop, large))
	wantWhole := bytesOf(t, transformed(t, openDataset(t, dir), resample.Stretch, large))
	for round := range 3 {
		ds := entryPoints(t, dir, cacheDir)
		e := transformed(t, ds, resample.RandomResizedCrop, large, withEntries(round == 2))
		if !bytes.Equal(bytesOf(t, e), want) {
			t.Errorf("round %d: other bytes", round)
		}
		got := e.Stats().JPEGs.Entries
		if (round > 0) != (got.Made == 0) || got.Used == 0 || got.None+got.Wrong > 0 {
			t.Errorf("round %d: %+v", round, got)
		}
		e.Close() // so that all entry points are written
		whole := transformed(t, ds, resample.Stretch, large, withEntries(false))
		if !bytes.Equal(bytesOf(t, whole), wantWhole) {
			t.Errorf("round %d: other bytes of whole images", round)
		}
		if got := whole.Stats().JPEGs.Entries; got.Used == 0 || got.Made+got.None+got.Wrong > 0 {
			t.Errorf("round %d, whole images: %+v", round, got)
		}
		whole.Close()
	}
}

// TestDamageOutsideTheCrop: damage that came after the entry points were made, and left size and
// time unchanged, goes unseen if the crop does not need it, unless reads are verified.
func TestDamageOutsideTheCrop(t *testing.T) {
	const n = 12
	dir, cacheDir := jpegDir(t, n), filepath.Join(t.TempDir(), "cache")
	run := func(verify bool) (good int, got sample.EntryCounts) {
		ds := entryPoints(t, dir, cacheDir)
		e := transformed(t, ds, resample.RandomResizedCrop, large, withEntries(verify), func(o *Options) {
			o.BatchSize, o.Epochs = 1, 1
		})
		defer e.Close()
		for _, k := range allKeys(e) {
			if f, err := e.Open(t.Context(), k, layout.NHWCForm); err == nil {
				good++
				f.Close()
			}
		}
		return good, e.Stats().JPEGs.Entries
	}
	if good, got := run(false); good != n || got.Made != n {
		t.Fatalf("%d of %d, %+v", good, n, got)
	}
	for i := range n {
		damage(t, filepath.Join(dir, fmt.Sprintf("%02d.jpg", i)))
	}
	unseen, got := run(false)
	if got.Used == 0 {
		t.Errorf("%+v", got)
	}
	seen, got := run(true)
	if seen >= unseen || got.Used > 0 || got.Wrong == 0 {
		t.Errorf("%d of %d samples look good when verified, %d without: %+v", seen, n, unseen, got)
	}
}

// damage puts a marker that has no business there into the first rows of a JPEG's data, and leaves
// its size and time alone.
func damage(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	testkit.Must(t, err)
	data := contents(t, path)
	scan := bytes.Index(data, []byte("\xff\xda"))
	copy(data[scan+100:], "\xff\xd9")
	writeFile(t, path, data)
	testkit.Must(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
}
