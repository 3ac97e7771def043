package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// largeJPEGs writes n JPEGs of about 700 KB each.
func largeJPEGs(t *testing.T, n int) string {
	t.Helper()
	return written(t, n, largeJPEG)
}

var largeJPEG = madeOnce(func(i int) image.Image {
	img, random := image.NewRGBA(image.Rect(0, 0, 800, 600)), rand.New(rand.NewPCG(1, uint64(i)))
	for y := range 600 {
		for x := range 800 {
			img.SetRGBA(x, y, color.RGBA{byte(x + i), byte(y), byte(random.IntN(256)), 255})
		}
	}
	return img
})

// madeOnce encodes each picture once for all tests, as that takes long with the race detector.
func madeOnce(picture func(i int) image.Image) func(i int) ([]byte, error) {
	var mu sync.Mutex
	made := map[int][]byte{}
	return func(i int) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		if made[i] == nil {
			var out bytes.Buffer
			if err := jpeg.Encode(&out, picture(i), &jpeg.Options{Quality: 90}); err != nil {
				return nil, err
			}
			made[i] = out.Bytes()
		}
		return made[i], nil
	}
}

// written writes n pictures into a new directory.
func written(t testing.TB, n int, picture func(i int) ([]byte, error)) string {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		data, err := picture(i)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%02d.jpg", i)), data, 0o600)
		}
		testkit.Must(t, err)
	}
	return dir
}

// bytesIn returns the total size of the files in a directory.
func bytesIn(t *testing.T, dir string) (n int64) {
	t.Helper()
	files, err := os.ReadDir(dir)
	testkit.Must(t, err)
	for _, f := range files {
		info, err := f.Info()
		testkit.Must(t, err)
		n += info.Size()
	}
	return n
}

// madeEntries makes the entry points of the JPEGs in a directory, and opens a dataset that has
// them, with its storage read in a given way.
func madeEntries(t *testing.T, dir string, how dataset.Storage) *dataset.Dataset {
	t.Helper()
	cacheDir := filepath.Join(t.TempDir(), "cache")
	ds := entryPoints(t, dir, cacheDir)
	made := transformed(t, ds, resample.Stretch, large, inPart, withEntries(false))
	bytesOf(t, made)
	if got := made.Stats().JPEGs.Entries; got.Made == 0 || got.None+got.Wrong > 0 {
		t.Fatalf("%+v", got)
	}
	made.Close()
	ds, err := dataset.Open(t.Context(), dir, dataset.Options{Workers: 2, Prober: sample.Probe, CacheDir: cacheDir, Storage: how})
	testkit.Must(t, err)
	t.Cleanup(func() { ds.Close() })
	return ds
}

// inPart makes crops whose JPEGs are decoded at full size.
func inPart(o *Options) { o.FullJPEGs, o.BatchSize, o.Epochs, o.PrefetchDepth = true, 1, 4, 0 }

// TestPartsOfJPEGs: of a large JPEG with entry points, only what a crop needs is read. The bytes
// are the same, whether they are read directly or not, kept by the cache or not, and at reduced
// scales. If reads are verified, everything is read.
func TestPartsOfJPEGs(t *testing.T) {
	const n = 12
	dir := largeJPEGs(t, n)
	all := bytesIn(t, dir) * 4 // epochs
	plain := transformed(t, openDataset(t, dir), resample.RandomResizedCrop, large, inPart)
	want := bytesOf(t, plain)
	if got := plain.Stats().Storage.Bytes; got != all {
		t.Errorf("without entry points, %d of %d bytes were read", got, all)
	}
	for _, how := range []dataset.Storage{{}, {Direct: true}} {
		ds := madeEntries(t, dir, how)
		for name, c := range map[string]struct {
			change func(*Options)
			verify bool
			least  int64 // percent of all bytes
			most   int64
		}{
			"part":     {func(*Options) {}, false, 40, 85},
			"verified": {func(*Options) {}, true, 100, 100},
			"cached":   {func(o *Options) { o.CacheSize, o.CachePolicy = 64<<20, cache.Static }, false, 25, 25},
			"planned":  {func(o *Options) { o.CacheSize, o.CachePolicy, o.BatchSize = all*9/40, cache.Constant, 4 }, false, 20, 62},
			"mirrored": {func(o *Options) { o.Transform.Flip = 1 }, false, 40, 85},
			"scaled":   {func(o *Options) { o.FullJPEGs, o.Transform.Height, o.Transform.Width = false, 12, 16 }, false, 40, 85},
		} {
			want := want
			if name == "scaled" || name == "mirrored" {
				want = bytesOf(t, transformed(t, openDataset(t, dir), resample.RandomResizedCrop, large, inPart, c.change))
			}
			e := transformed(t, ds, resample.RandomResizedCrop, large, inPart, withEntries(c.verify), c.change)
			read := func() []byte { return bytesOf(t, e) }
			if name == "planned" {
				read = func() []byte { return bytes.Join(readEpochs(t, e, 0, 4), nil) }
			}
			if !bytes.Equal(read(), want) {
				t.Errorf("%s, %+v: other bytes", name, how)
			}
			stats := e.Stats()
			got, used := stats.Storage.Bytes, stats.JPEGs.Entries
			if got < all*c.least/100 || got > all*c.most/100 || used.Made+used.None+used.Wrong > 0 || used.Used == 0 {
				t.Errorf("%s, %+v: %d of %d bytes were read; %+v", name, how, got, all, used)
			}
			t.Logf("%s, direct %v: %d %% of the bytes were read; %+v", name, how.Direct, got*100/all, used)
			e.Close()
		}
	}
}

// small makes crops small.
func small(o *Options) { o.Transform.CropArea = [2]float64{0.05, 0.3} }

// verdicts makes every batch, and returns its pixels or its error.
func verdicts(t *testing.T, e *Engine) (out []string) {
	t.Helper()
	for _, k := range allKeys(e) {
		f, err := e.Open(t.Context(), k, layout.NHWCForm)
		if err != nil {
			out = append(out, "error: "+err.Error())
			continue
		}
		out = append(out, string(f.Bytes()))
		f.Close()
	}
	return out
}

// TestDamageInAPart: damage that is decoded leads to the same verdict as without entry points,
// after the whole file was read. Damage that is not read changes no pixel. The replacement of a bad
// file is always the same.
func TestDamageInAPart(t *testing.T) {
	const n = 8
	dir := largeJPEGs(t, n)
	crops := func(ds *dataset.Dataset, change ...func(*Options)) *Engine {
		return transformed(t, ds, resample.RandomResizedCrop, append(change, large, inPart, small)...)
	}
	sound := verdicts(t, crops(openDataset(t, dir)))
	var ds [3]*dataset.Dataset
	for policy := range ds {
		ds[policy] = madeEntries(t, dir, dataset.Storage{})
	}
	all := bytesIn(t, dir)
	for i := range n {
		damageAt(t, filepath.Join(dir, fmt.Sprintf("%02d.jpg", i)), float64(i+1)/float64(n+1))
	}
	for policy := range ds {
		refusing := func(o *Options) { o.OnError = catalog.OnError(policy) }
		plain := verdicts(t, crops(openDataset(t, dir), refusing))
		e := crops(ds[policy], withEntries(false), refusing)
		refused, unseen := 0, 0
		for i, got := range verdicts(t, e) {
			switch got {
			case plain[i]:
				if plain[i] != sound[i] {
					refused++
				}
			case sound[i]:
				unseen++
			default:
				t.Errorf("batch %d: %.200q, without entry points %.200q", i, got, plain[i])
			}
		}
		if refused == 0 || unseen == 0 {
			t.Errorf("damage was found in %d batches, and not seen in %d others", refused, unseen)
		}
		got := e.Stats()
		if got.Storage.Bytes <= all*int64(refused)/n || got.JPEGs.Entries.None == 0 {
			t.Errorf("%d bytes were read: %+v", got.Storage.Bytes, got.JPEGs.Entries)
		}
		for _, epoch := range got.Epochs {
			if epoch.Misses > n && policy != int(Replace) { // replacements count as well
				t.Errorf("epoch %d: %d samples are said to have come from storage, of %d", epoch.Epoch, epoch.Misses, n)
			}
		}
	}
}

// damageAt damages a file at a place between 0 and 1.
func damageAt(t *testing.T, path string, at float64) {
	t.Helper()
	info, err := os.Stat(path)
	testkit.Must(t, err)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	testkit.Must(t, err)
	defer f.Close()
	if _, err := f.WriteAt([]byte("\xff\xd9"), int64(at*float64(info.Size()))); err != nil {
		t.Fatal(err)
	}
	testkit.Must(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
}

// TestPartsOfChangedFiles: a file that shrank or was replaced is refused, as it is without entry
// points.
func TestPartsOfChangedFiles(t *testing.T) {
	dir := largeJPEGs(t, 3)
	without := openDataset(t, dir)
	ds := madeEntries(t, dir, dataset.Storage{})
	shrunk := filepath.Join(dir, "00.jpg")
	testkit.Must(t, os.Truncate(shrunk, 300_000))
	data := contents(t, filepath.Join(dir, "02.jpg"))
	writeFile(t, filepath.Join(dir, "01.jpg"), data)
	want := verdicts(t, transformed(t, without, resample.RandomResizedCrop, large, inPart))
	got := verdicts(t, transformed(t, ds, resample.RandomResizedCrop, large, inPart, withEntries(false)))
	failed := 0
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("batch %d: %.200q, without entry points %.200q", i, got[i], want[i])
		}
		if bytes.HasPrefix([]byte(got[i]), []byte("error: ")) {
			failed++
		}
	}
	if failed != len(got)*2/3 {
		t.Errorf("%d of %d batches failed", failed, len(got))
	}
}

// noisePNG is a PNG of picture(i, h, w), about as large as its pixels. Behind the pixels it
// has EXIF data that rotates it to the right, followed by text bytes of text.
func noisePNG(t *testing.T, i, h, w, text int) []byte {
	t.Helper()
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	p := picture(i, h, w)
	for k := range h * w {
		copy(m.Pix[4*k:], p[3*k:3*k+3])
		m.Pix[4*k+3] = 255
	}
	var b bytes.Buffer
	testkit.Must(t, png.Encode(&b, m))
	chunk := func(kind string, data []byte) []byte {
		c := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
		c = append(append(c, kind...), data...)
		return binary.BigEndian.AppendUint32(c, crc32.ChecksumIEEE(c[4:]))
	}
	exif := []byte("MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00")
	const end = 12
	file := bytes.Clone(b.Bytes()[:b.Len()-end])
	file = append(append(file, chunk("eXIf", exif)...), chunk("tEXt", append([]byte("k\x00"), make([]byte, text)...))...)
	return append(file, b.Bytes()[b.Len()-end:]...)
}

// TestEXIFBehindThePixels: a PNG whose EXIF data follows its pixels, near enough to the end
// of the file, is rotated, both in the index and when it is decoded. The result is the same
// whether all or part of the file is probed.
func TestEXIFBehindThePixels(t *testing.T) {
	for _, c := range []struct {
		h, w, text int
		turned     bool
	}{
		{3, 5, 0, true},          // the first probe covers the whole file
		{40, 60, 900, true},      // 8 KB
		{40, 70, 0, true},        // slightly more
		{90, 100, 0, true},       // less than the part probed at the end
		{200, 150, 0, true},      // more than that
		{200, 150, 60000, true},  //
		{200, 150, 70000, false}, // too far from the end
		{2, 3, 70000, false},     // too far, even though the whole file is read
	} {
		for _, ignore := range []bool{false, true} {
			t.Run(fmt.Sprintf("%dx%d, %d behind, ignored %t", c.h, c.w, c.text, ignore), func(t *testing.T) {
				dir := t.TempDir()
				writeFile(t, filepath.Join(dir, "a.png"), noisePNG(t, 1, c.h, c.w, c.text))
				e := start(t, dir, func(o *Options) { o.BatchSize, o.Decoding.IgnoreOrientation = 1, ignore })
				want, h, w := picture(1, c.h, c.w), c.h, c.w
				if c.turned && !ignore {
					want, h, w = turnedRight(want, h, w), w, h
				}
				if ih, iw := e.catalog.Dataset.Size(0, ignore); ih != h || iw != w {
					t.Errorf("the index says %dx%d, want %dx%d", ih, iw, h, w)
				}
				if s := e.catalog.Spec(Key{}); s.H != h || s.W != w {
					t.Errorf("the batch is %dx%d, want %dx%d", s.H, s.W, h, w)
				}
				if got := read(t, e, Key{}, layout.NHWCForm); !bytes.Equal(got, want) {
					t.Error("other pixels")
				}
			})
		}
	}
}

// turnedRight returns an image rotated so that its left edge becomes the top.
func turnedRight(p []byte, h, w int) (out []byte) {
	for y := range w {
		for x := range h {
			out = append(out, p[((h-1-x)*w+y)*3:][:3]...)
		}
	}
	return out
}

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
