package convert

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	images "image"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/image/bmp"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/gen"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/shard"
)

// open opens a dataset and closes it at the end of the test.
func open(t testing.TB, path string) *dataset.Dataset {
	t.Helper()
	ds, err := openDataset(path)
	testkit.Must(t, err)
	t.Cleanup(func() { ds.Close() })
	return ds
}

func openDataset(path string) (*dataset.Dataset, error) {
	return dataset.Open(context.Background(), path, dataset.Options{Prober: sample.Probe, Rescan: true, AllowOutside: true})
}

// mixed is a dataset of every kind of file in five classes. Each call returns its own copy of
// one that all tests share.
func mixed(t testing.TB) string {
	t.Helper()
	from, err := makeMixed()
	testkit.Must(t, err)
	to := filepath.Join(t.TempDir(), "mixed")
	testkit.Must(t, os.CopyFS(to, os.DirFS(from)))
	return to
}

var makeMixed = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(scratch, "mixed")
	return dir, gen.Write(context.Background(), gen.Options{Dir: dir, Images: 80, Kind: gen.Mixed, Classes: 5, Seed: 3})
})

// convert converts a dataset and returns the result's directory. Progress reaches the number of
// samples and does not exceed it, even if samples are replaced.
func convert(t testing.TB, path string, o Options) (string, Report) {
	t.Helper()
	ds, out, last := open(t, path), filepath.Join(t.TempDir(), "out"), int64(0)
	o.Progress = func(done, total int64) {
		if done != last+1 || total != int64(ds.Len()) {
			t.Errorf("%d of %d after %d", done, total, last)
		}
		last = done
	}
	r, err := Write(context.Background(), ds, out, o)
	if err != nil || last != int64(ds.Len()) {
		t.Fatalf("%d of %d, %v", last, ds.Len(), err)
	}
	return out, r
}

// image holds a sample's pixels, upright.
type image struct {
	height, width int
	rgb           []byte
}

func decodeFile(t testing.TB, data []byte) image {
	t.Helper()
	h, err := decode.ReadHeader(data, true)
	testkit.Must(t, err)
	height, width := h.Size(false)
	d := decode.NewDecoder(decode.Options{})
	defer d.Close()
	i := image{height, width, make([]byte, 3*height*width)}
	testkit.Must(t, d.Decode(decode.Image{Pix: i.rgb, Stride: 3 * width, Height: height, Width: width}, data, h))
	return i
}

// readSample decodes sample i of a dataset.
func readSample(t testing.TB, ds *dataset.Dataset, i int) (data []byte, decoded image) {
	t.Helper()
	data, _, _, err := ds.LoadPart(context.Background(), i, 0, nil, func(n int) []byte { return make([]byte, n) }, nil, 0)
	testkit.Must(t, err)
	return data, decodeFile(t, data)
}

// contents describes everything in a directory: types, permissions, contents, and the
// modification times of files.
func contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch info.Mode().Type() {
		case 0:
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %x", sha256.Sum256(data))
			if e.Name() != markerName {
				text += " " + info.ModTime().String()
			}
		case fs.ModeSymlink:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			text += " " + to
		}
		rel, err := filepath.Rel(dir, path)
		all[rel] = text
		return err
	})
	testkit.Must(t, err)
	return all
}

// formCount is how many samples of each label have a form.
func formCount(ds *dataset.Dataset, f shard.Cost) (all int, byLabel map[int]int) {
	byLabel = map[int]int{}
	for i := range ds.Len() {
		if sample.CostOf(ds, i) == f {
			all++
			byLabel[ds.Label(i)]++
		}
	}
	return all, byLabel
}

// small is a dataset of small files with every case that matters for placing files: two classes
// and an empty one, a nested directory, names that collide, gray, raw, broken and unreadable
// files.
func small(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "small")
	for name, data := range map[string][]byte{
		"a/0.png":       pngOf(t, 5, 4, false),
		"a/1.png":       pngOf(t, 3, 7, true),
		"a/1.jpg":       pngOf(t, 6, 2, false), // the content determines the format
		"a/2.bmp":       bmpOf(t, 4, 4),
		"a/3.png":       pngOf(t, 9, 9, false)[:80], // truncated
		"b/0.png":       pngOf(t, 2, 2, false),
		"b/deep/x.png":  pngOf(t, 7, 3, false),
		"b/deep/y.jpeg": []byte("no image"),
		"b/deep/z.png":  pngOf(t, 1, 1, true),
		"empty/note":    nil,
	} {
		write(t, filepath.Join(dir, name), data)
	}
	testkit.Must(t, os.Symlink("/nowhere", filepath.Join(dir, "b/gone.png")))
	return dir
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	testkit.Must(t, os.WriteFile(path, data, 0o640))
}

func picture(h, w int, gray bool) *images.RGBA {
	i := images.NewRGBA(images.Rect(0, 0, w, h))
	for k := range i.Pix {
		i.Pix[k] = byte(k*k*7 + k)
		if k%4 == 3 {
			i.Pix[k] = 255
		} else if gray {
			i.Pix[k] = byte(k / 4 * 9)
		}
	}
	return i
}

func pngOf(t testing.TB, h, w int, gray bool) []byte {
	t.Helper()
	var b bytes.Buffer
	testkit.Must(t, png.Encode(&b, picture(h, w, gray)))
	return b.Bytes()
}

func bmpOf(t testing.TB, h, w int) []byte {
	t.Helper()
	var b bytes.Buffer
	testkit.Must(t, bmp.Encode(&b, picture(h, w, false)))
	return b.Bytes()
}

// otherFileSystem is a directory on another file system than the tests' own, so that files must
// be copied.
func otherFileSystem(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "convert-test-*")
	if err != nil {
		t.Skip("there is no other file system at hand: ", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	var here, there unix.Stat_t
	if unix.Stat(scratch, &here) != nil || unix.Stat(dir, &there) != nil || here.Dev == there.Dev {
		t.Skip("there is no other file system at hand")
	}
	return dir
}
