package sample

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/gen"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/internal/testkit"
)

// files are the contents of files by name, in order of their names.
type files map[string][]byte

// generated are images of every kind in three classes.
func generated(t *testing.T) files {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "mixed")
	testkit.Must(t, gen.Write(t.Context(), gen.Options{Dir: dir, Images: 60, Kind: gen.Mixed, Classes: 3, Seed: 5}))
	return testkit.Files(t, dir)
}

// packed packs what can be packed.
func (f files) packed(t *testing.T) (p files, count int) {
	t.Helper()
	d := decode.NewDecoder(decode.Options{})
	defer d.Close()
	p = files{}
	for name, data := range f {
		h, err := decode.ReadHeader(data, true)
		testkit.Must(t, err)
		short, err := d.Pack(data, h, decode.ForFile)
		switch {
		case errors.Is(err, decode.ErrNoPackedForm):
			p[name] = data
		case err != nil:
			t.Fatalf("%s: %v", name, err)
		default:
			p[name+".bfs"] = short
			count++
		}
	}
	return p, count
}

// The ways to store a dataset: each writes files to a directory, and returns what to open.
var stored = map[string]func(dir string, f files) (path string, err error){
	"folder": func(dir string, f files) (string, error) {
		return dir, f.write(dir)
	},
	"manifest": func(dir string, f files) (string, error) {
		rows := "path,label,height,width,format\n"
		for k, name := range slices.Sorted(maps.Keys(f)) {
			rows += fmt.Sprintf("%s,%d,", name, label(name))
			if h, err := decode.ReadHeader(f[name], true); err != nil || k%2 == 0 {
				rows += ",,\n"
			} else {
				height, width := h.Size(false)
				rows += fmt.Sprintf("%d,%d,%s\n", height, width, filepath.Ext(name)[1:])
			}
		}
		return filepath.Join(dir, "list.csv"), errors.Join(f.write(dir), os.WriteFile(filepath.Join(dir, "list.csv"), []byte(rows), 0o644))
	},
	"WebDataset": func(dir string, f files) (string, error) {
		with := files{}
		for name, data := range f {
			flat := strings.ReplaceAll(name, "/", "-")
			stem, _, _ := strings.Cut(flat, ".")
			with[strings.ToLower(flat)] = data
			with[stem+".cls"] = fmt.Append(nil, label(name))
		}
		path := filepath.Join(dir, "all.tar")
		return path, os.WriteFile(path, with.tar(), 0o644)
	},
	"zip": func(dir string, f files) (string, error) {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		err := errors.Join(w.AddFS(f.fs()), w.Close())
		return filepath.Join(dir, "all.zip"), errors.Join(err, os.WriteFile(filepath.Join(dir, "all.zip"), b.Bytes(), 0o644))
	},
	"tar of tars": func(dir string, f files) (string, error) {
		inner := map[string]files{}
		for name, data := range f {
			if class, base := filepath.Split(name); inner[class] == nil {
				inner[class] = files{base: data}
			} else {
				inner[class][base] = data
			}
		}
		outer := files{}
		for class, f := range inner {
			outer[filepath.Clean(class)+".tar"] = f.tar()
		}
		return filepath.Join(dir, "all.tar"), os.WriteFile(filepath.Join(dir, "all.tar"), outer.tar(), 0o644)
	},
}

// label is one that follows from the number in a name.
func label(name string) int {
	stem, _, _ := strings.Cut(name, ".")
	return int(stem[len(stem)-1]) % 3
}

func (f files) fs() fs.FS {
	m := fstest.MapFS{}
	for name, data := range f {
		m[name] = &fstest.MapFile{Data: data, Mode: 0o644}
	}
	return m
}

func (f files) write(dir string) error { return os.CopyFS(dir, f.fs()) }

func (f files) tar() []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(w.AddFS(f.fs()), w.Close()); err != nil {
		panic(err) // of memory, which does not fail
	}
	return b.Bytes()
}

// TestPackedSamples: a dataset with packed images equals the one with the originals: the same
// samples in the same order, with the same labels, sizes and pixels, at every scale of decoding,
// however it is stored.
func TestPackedSamples(t *testing.T) {
	originals := generated(t)
	short, count := originals.packed(t)
	if count < 20 {
		t.Fatalf("only %d images could be packed", count)
	}
	for name, store := range stored {
		t.Run(name, func(t *testing.T) {
			was, is := openStored(t, store, originals), openStored(t, store, short)
			if was.Len() != len(originals) || is.Len() != was.Len() || is.Report.Formats["packed"] != count {
				t.Fatalf("%d samples became %d: %v", was.Len(), is.Len(), is.Report.Formats)
			}
			if !slices.Equal(was.Classes, is.Classes) {
				t.Errorf("classes %q became %q", was.Classes, is.Classes)
			}
			a, b := newReader(t, was), newReader(t, is)
			for i := range was.Len() {
				if want := was.Path(i); is.Path(i) != want && is.Path(i) != want+".bfs" || is.Label(i) != was.Label(i) {
					t.Fatalf("%s with label %d became %s with label %d", want, was.Label(i), is.Path(i), is.Label(i))
				}
				for _, shrink := range []int{1, 2, 9} {
					want, got := drawn(t, a, i, shrink), drawn(t, b, i, shrink)
					if !bytes.Equal(want, got) {
						t.Errorf("%s has other pixels at 1/%d", is.Path(i), shrink)
					}
				}
			}
		})
	}
}

func openStored(t *testing.T, store func(dir string, f files) (string, error), f files) *dataset.Dataset {
	t.Helper()
	path, err := store(t.TempDir(), f)
	testkit.Must(t, err)
	ds, err := dataset.Open(t.Context(), path, dataset.Options{Prober: Probe})
	testkit.Must(t, err)
	t.Cleanup(func() { ds.Close() })
	return ds
}

func newReader(t *testing.T, ds *dataset.Dataset) *Reader {
	r := NewReader(ds, decode.Options{MaxPixels: 1 << 28}, NewMemory(0, 1))
	t.Cleanup(r.Close)
	return r
}

// drawn are the pixels of a sample, shrunk.
func drawn(t *testing.T, r *Reader, i, shrink int) []byte {
	t.Helper()
	img, err := r.Read(t.Context(), i, 0)
	testkit.Must(t, err)
	if h, w := r.ds.Size(i, false); h != img.Height || w != img.Width {
		t.Errorf("%s has %dx%d pixels, and is indexed with %dx%d", r.ds.Path(i), img.Height, img.Width, h, w)
	}
	o := resample.Options{Mode: resample.Stretch, Height: max(1, img.Height/shrink), Width: max(1, img.Width/shrink)}
	pix := make([]byte, 3*o.Height*o.Width)
	if err := r.Draw(img, o.Choose(0, int64(i), img.Height, img.Width), pixels.Target{Pix: pix, Stride: 3 * o.Width}); err != nil {
		t.Fatalf("%s: %v", r.ds.Path(i), err)
	}
	return pix
}

// TestPackedDamage: a packed image of which any byte has changed is bad, and says so.
func TestPackedDamage(t *testing.T) {
	short, _ := generated(t).packed(t)
	damaged := 0
	for name, data := range short {
		if filepath.Ext(name) == ".bfs" {
			data[len(data)-1-damaged*len(data)/len(short)] ^= 1
			damaged++
		}
	}
	ds := openStored(t, stored["folder"], short)
	o := decode.Options{MaxPixels: 1 << 28}
	r := NewReader(ds, o, NewMemory(1<<30, 1))
	defer r.Close()
	bad := 0
	for i := range ds.Len() {
		img, err := r.Read(t.Context(), i, 0)
		if err == nil {
			err = r.Decode(img)
		}
		r.Done()
		if err == nil {
			continue
		}
		if bad++; fault.Of(err) != fault.File || filepath.Ext(ds.Path(i)) != ".bfs" {
			t.Errorf("%s: %v", ds.Path(i), err)
		}
	}
	if bad != damaged {
		t.Errorf("of %d damaged images, %d are bad", damaged, bad)
	}
}

// TestPackedParts: of a packed image, only the rows of its crop are read: between two offsets if
// that skips much, and otherwise up to the last one. The pixels are those of the whole file, at
// every scale of decoding, and a change in the part that is read is detected.
func TestPackedParts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	img := image.NewRGBA(image.Rect(0, 0, 1000, 800))
	for i := range img.Pix {
		img.Pix[i] = byte(i>>6) + byte(random.IntN(40))
	}
	var large, photo, small bytes.Buffer
	err := errors.Join(png.Encode(&large, img), jpeg.Encode(&photo, img, nil), jpeg.Encode(&small, img.SubImage(image.Rect(0, 0, 400, 300)), nil))
	testkit.Must(t, err)
	short, count := files{"0.png": large.Bytes(), "1.jpg": photo.Bytes(), "2.jpg": small.Bytes()}.packed(t)
	if count != len(short) {
		t.Fatalf("%d of %d images were packed", count, len(short))
	}
	ds := openStored(t, stored["folder"], short)
	r := newReader(t, ds)
	o := pixels.Options{Options: decode.Options{MaxPixels: 1 << 28}}
	for _, side := range []int{150, 40} {
		transform := resample.Options{
			Mode: resample.RandomResizedCrop, Height: side, Width: side, CropArea: [2]float64{0.02, 0.5}, CropRatio: resample.DefaultCropRatio,
		}
		l := NewLoader(ds, transform, o, nil)
		for i := range ds.Len() {
			less, skipped, found := 0, 0, 0
			for epoch := range 60 {
				buf := bytes.Repeat([]byte{0xee}, 8<<20)
				data, read, _, err := l.Load(t.Context(), epoch, int64(i), false, func(n int) []byte { return buf[:n] })
				testkit.Must(t, err)
				whole, err := r.Read(t.Context(), i, 0)
				testkit.Must(t, err)
				part := whole
				part.Data = data
				choice := transform.Choose(epoch, int64(i), whole.Height, whole.Width)
				shown := func(img Image) ([]byte, error) {
					pix := make([]byte, 3*side*side)
					return pix, r.Draw(img, choice, pixels.Target{Pix: pix, Stride: 3 * side})
				}
				want, err := shown(whole)
				got, err2 := shown(part)
				if err != nil || err2 != nil || !bytes.Equal(want, got) {
					t.Fatalf("%s, epoch %d: other pixels: %v, %v", ds.Path(i), epoch, err, err2)
				}
				if read > int64(len(data)) {
					t.Errorf("%s: %d bytes of %d were read", ds.Path(i), read, len(data))
				}
				if read < int64(len(data)) {
					less++
				}
				n := len(data)
				for n > 0 && data[n-1] == 0xee {
					n--
				}
				if bytes.Contains(data[:n], bytes.Repeat([]byte{0xee}, 5000)) {
					skipped++
				}
				data[1000+epoch*len(data)/70] ^= 1
				if _, err := shown(part); err != nil {
					found++
				}
			}
			if less < 20 || i < 2 && skipped < 20 || found < 5 || found == 60 {
				t.Errorf("%s at %d: of 60 reads, %d were of less than the file, %d left out what precedes the crop, and %d changes were found", ds.Path(i), side, less, skipped, found)
			}
		}
	}
}
