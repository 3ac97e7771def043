package convert

import (
	"bytes"
	images "image"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/shard"
	"golang.org/x/image/bmp"
)

// TestPixelsSurvive: every sample keeps its number, its label and all of its pixels, whatever
// its kind: rotated, with a palette, 16 bits, alpha, gray, CMYK; and the number of raw samples
// is right.
func TestPixelsSurvive(t *testing.T) {
	for _, format := range []Format{BMP, PPM} {
		for _, ratio := range []float64{0.5, 1} {
			path := mixed(t)
			before := contents(t, path)
			out, r := convert(t, path, Options{Shares: Shares{Raw: ratio}, Format: format, Seed: 1})
			was, is := open(t, path), open(t, out)
			sameSamples(t, was, is)
			already, _ := formCount(was, shard.Raw)
			want := max(already, int(countOf(ratio, int64(was.Len()))))
			if raw, _ := formCount(is, shard.Raw); raw != want || r.Raw != want || r.AlreadyRaw != already || r.Converted != want-already {
				t.Errorf("%v at %v: %d raw, want %d; reported: %+v", format, ratio, raw, want, r)
			}
			if r.Linked != was.Len()-r.Converted || r.Copied+r.Cloned+r.Symlinked+r.Reused+len(r.Unreadable) != 0 {
				t.Errorf("%v at %v: reported %+v", format, ratio, r)
			}
			onlySamples(t, out, is, "")
			if beside, err := os.ReadDir(filepath.Dir(out)); err != nil || len(beside) != 1 {
				t.Errorf("%v beside the result: %v", beside, err)
			}
			if after := contents(t, path); len(after) != len(before) {
				t.Errorf("the dataset's files were %d, and are %d", len(before), len(after))
			}
		}
	}
}

// sameSamples compares two datasets, sample by sample: numbers, labels, readability, and pixels.
// Kept samples must have the same bytes; converted ones must have the original's time, and the
// format that their name says.
func sameSamples(t *testing.T, was, is *dataset.Dataset) {
	t.Helper()
	if was.Len() != is.Len() {
		t.Fatalf("%d samples, want %d", is.Len(), was.Len())
	}
	for i := range was.Len() {
		inPlace := filepath.Dir(was.Path(i)) == filepath.Dir(is.Path(i)) || is.Manifest != "" && filepath.IsLocal(is.Path(i))
		if !inPlace || was.Label(i) != is.Label(i) || (was.Problem(i) == "") != (is.Problem(i) == "") {
			t.Fatalf("sample %d is %s, label %d, and was %s, label %d", i, is.Path(i), is.Label(i), was.Path(i), was.Label(i))
		}
		if was.Problem(i) != "" {
			continue
		}
		data, want := readSample(t, was, i)
		now, got := readSample(t, is, i)
		if got.height != want.height || got.width != want.width || !bytes.Equal(got.rgb, want.rgb) {
			t.Errorf("%s has other pixels than %s", is.Path(i), was.Path(i))
		}
		if filepath.Base(was.Path(i)) == filepath.Base(is.Path(i)) {
			if !bytes.Equal(data, now) {
				t.Errorf("%s was kept, but has other bytes", is.Path(i))
			}
			continue
		}
		if was.Stat(i).ModTime != is.Stat(i).ModTime {
			t.Errorf("%s has another modification time than %s", is.Path(i), was.Path(i))
		}
		if strings.HasSuffix(is.Path(i), ".bfs") {
			checkPacked(t, is.Path(i), now, data)
		} else {
			checkRaw(t, is.Path(i), now, want)
		}
	}
}

// checkPacked unpacks a packed file: the result must be the original; for PNG, another PNG with the
// same pixels.
func checkPacked(t *testing.T, path string, file, was []byte) {
	t.Helper()
	is, err := decode.Unpack(file)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if decode.Sniff(was) == decode.PNG {
		if a, b := decodeFile(t, is), decodeFile(t, was); decode.Sniff(is) == decode.PNG && bytes.Equal(a.rgb, b.rgb) {
			return
		}
	}
	if !bytes.Equal(is, was) {
		t.Errorf("%s is unpacked to another file", path)
	}
}

// checkRaw compares a raw file with the pixels it should hold, and its name with its content,
// without using package decode.
func checkRaw(t *testing.T, path string, file []byte, want image) {
	t.Helper()
	switch gray := isGray(want.rgb); filepath.Ext(path) {
	case ".bmp":
		decoded, err := bmp.Decode(bytes.NewReader(file))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		var rgb []byte
		for p := decoded.(*images.RGBA).Pix; len(p) > 0; p = p[4:] {
			rgb = append(rgb, p[:3]...)
		}
		if !bytes.Equal(rgb, want.rgb) {
			t.Errorf("%s holds other pixels for others than batchfs", path)
		}
	case ".ppm":
		if gray || !bytes.HasPrefix(file, []byte("P6\n")) || !bytes.HasSuffix(file, want.rgb) {
			t.Errorf("%s is not the PPM it should be", path)
		}
	case ".pgm":
		if !gray || !bytes.HasPrefix(file, []byte("P5\n")) {
			t.Errorf("%s is not the PGM it should be", path)
		}
	default:
		t.Errorf("%s is no name of a raw file", path)
	}
}

// onlySamples checks that the result contains only its samples, the marker and a manifest.
func onlySamples(t *testing.T, out string, ds *dataset.Dataset, manifest string) {
	t.Helper()
	files := map[string]bool{markerName: true, manifest: true}
	for i := range ds.Len() {
		files[ds.Path(i)] = true
	}
	for path, text := range contents(t, out) {
		if text[0] != 'd' && !files[path] {
			t.Errorf("%s lies in the result", path)
		}
	}
}

// TestStoredShrunk: resizing shows the same pixels for images stored at that size as for the
// originals.
func TestStoredShrunk(t *testing.T) {
	path := mixed(t)
	for mode, format := range map[resample.Mode]Format{resample.Stretch: PPM, resample.NotLarger: BMP, resample.NotSmaller: PPM} {
		o := resample.Options{Mode: mode, Height: 56, Width: 40}
		out, r := convert(t, path, Options{Shares: Shares{Raw: 1}, Format: format, Resize: mode, Height: o.Height, Width: o.Width})
		was, is := open(t, path), open(t, out)
		want, got := resized(t, was, o), resized(t, is, o)
		if r.Converted != is.Len()-r.AlreadyRaw {
			t.Errorf("%v: reported %+v", mode, r)
		}
		for i := range is.Len() {
			if !bytes.Equal(got[i], want[i]) {
				t.Errorf("%v: %s shows other pixels", mode, is.Path(i))
			}
			if height, width := is.Size(i, false); is.Path(i) != was.Path(i) && (height > o.Height || width > o.Width) {
				t.Fatalf("%v: %s is %dx%d", mode, is.Path(i), height, width)
			}
		}
	}
}

// resized are the pixels of all samples of a dataset as a mount shows them.
func resized(t *testing.T, ds *dataset.Dataset, o resample.Options) (all [][]byte) {
	t.Helper()
	r := sample.NewReader(ds, decode.Options{MaxPixels: decode.DefaultMaxPixels}, sample.NewMemory(0, 1))
	defer r.Close()
	for i := range ds.Len() {
		img, err := r.Read(t.Context(), i, 0)
		testkit.Must(t, err)
		pix := make([]byte, 3*o.Height*o.Width)
		testkit.Must(t, r.Draw(img, o.Choose(0, int64(i), img.Height, img.Width), pixels.Target{Pix: pix, Stride: 3 * o.Width}))
		all = append(all, pix)
	}
	return all
}

// TestIgnoredOrientation: raw samples can keep the orientation in which they are stored.
func TestIgnoredOrientation(t *testing.T) {
	path := mixed(t)
	out, _ := convert(t, path, Options{Shares: Shares{Raw: 1}, Format: PPM, IgnoreOrientation: true})
	was, is := open(t, path), open(t, out)
	turned := 0
	for i := range was.Len() {
		h, w := was.Size(i, true)
		if gotH, gotW := is.Size(i, false); gotH != h || gotW != w {
			t.Errorf("%s is %dx%d, stored were %dx%d", is.Path(i), gotH, gotW, h, w)
		}
		if uprightH, _ := was.Size(i, false); uprightH != h {
			turned++
		}
	}
	if turned == 0 {
		t.Error("no sample is turned")
	}
}
