package integration

import (
	"archive/tar"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/gen"
	"github.com/batchfs/batchfs/internal/sample"
)

// mixedImages is a dataset of every format and many sizes, from 1x1 to 375x500, in five
// classes, each with one large image. All tests share it and must not change it.
func mixedImages(t testing.TB) string {
	t.Helper()
	return shared(t, makeMixed)
}

// photos is a small dataset of 500x375 photos in three classes. All tests share it and must
// not change it.
func photos(t testing.TB) string {
	t.Helper()
	return shared(t, makePhotos)
}

var makeMixed = sync.OnceValues(func() (string, error) {
	dir, err := generated("mixed", gen.Options{Images: 120, Kind: gen.Mixed, Classes: 5, Seed: 3})
	if err != nil {
		return "", err
	}
	return dir, thin(dir)
})

// thin removes all large images of each class but the first, so that most batches are small
// and every way of reading them is fast.
func thin(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		return err
	}
	slices.Sort(files)
	has := map[string]bool{}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		h, err := decode.ReadHeader(data, true)
		if err != nil {
			return err
		}
		if class := filepath.Dir(path); max(h.Width, h.Height) > 255 {
			if has[class] {
				err = os.Remove(path)
			}
			has[class] = true
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var makePhotos = sync.OnceValues(func() (string, error) {
	return generated("photos", gen.Options{Images: 12, Kind: gen.Photo, Classes: 3, Seed: 4})
})

func generated(name string, o gen.Options) (string, error) {
	o.Dir = filepath.Join(suite.dir, name)
	return o.Dir, gen.Write(context.Background(), o)
}

func shared(t testing.TB, make func() (string, error)) string {
	t.Helper()
	dir, err := make()
	check(t, err)
	return dir
}

// writeFile writes a file and creates its parent directories.
func writeFile(t testing.TB, path string, data []byte) {
	t.Helper()
	check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(t, os.WriteFile(path, data, 0o644))
}

// TestMixtureIsItsFolder: a list of a folder here, a tar in a bucket and a folder in another, each
// with some of the classes of one folder, makes the same batches as that folder. The other commands
// take the list, too.
func TestMixtureIsItsFolder(t *testing.T) {
	images := mixedImages(t)
	ds, err := dataset.Open(t.Context(), images, dataset.Options{Prober: sample.Probe})
	check(t, err)
	defer ds.Close()
	dir := scratch(t)
	for _, name := range []string{"here", "one", "two"} {
		check(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for i := range ds.Len() {
		data, to := contentOf(t, ds, i), filepath.Join(dir, "here", ds.Path(i))
		switch ds.Label(i) {
		case 1, 2:
			check(t, w.WriteHeader(&tar.Header{Name: ds.Path(i), Size: int64(len(data)), Mode: 0o644}))
			_, err := w.Write(data)
			check(t, err)
			continue
		case 3, 4:
			to = filepath.Join(dir, "two", ds.Path(i))
		}
		check(t, os.MkdirAll(filepath.Dir(to), 0o755))
		check(t, os.WriteFile(to, data, 0o644))
	}
	check(t, w.Close())
	check(t, os.WriteFile(filepath.Join(dir, "one", "x.tar"), packed.Bytes(), 0o644))
	list := filepath.Join(dir, "all.txt")
	check(t, os.WriteFile(list, []byte("# three of five classes\nhere\n\ns3://one/x.tar\ns3://two\n"), 0o644))
	_, remote := objectStore(t, dir)
	flags := []string{"--shards", "2", "--batch-size", "7", "--shuffle", "--seed", "5", "--resize", "random-resized-crop", "--size", "48x48", "--list", "nhwc,labels.npy,ids.npy"}
	want := allBatches(t, mountBatchfs(t, images, flags...), 2)
	for _, more := range [][]string{nil, {"--local-cache", filepath.Join(dir, "cache"), "--local-cache-size", "1GB"}} {
		sameFrom(t, want, 2, list, slices.Concat(flags, remote, more)...)
	}
	run := func(args ...string) string {
		return runProgram(t, "", nil, suite.binary, append(args, remote...)...)
	}
	index := filepath.Join(dir, "index")
	run("index", list, "--index-at", index, "--part", "0/2")
	run("index", list, "--index-at", index, "--part", "1/2")
	run("index", list, "--index-at", index, "--merge")
	if out := run("verify", list, "--index-at", index, "--part", "0/2") + run("verify", list, "--index-at", index, "--part", "1/2") + run("verify", list, "--index-at", index, "--merge"); strings.Contains(out, "hint") {
		t.Error(out)
	}
	out := filepath.Join(dir, "converted")
	run("convert", list, out, "--raw-ratio", "0")
	converted, err := dataset.Open(t.Context(), out, dataset.Options{Prober: sample.Probe})
	check(t, err)
	defer converted.Close()
	if converted.Len() != ds.Len() || !slices.Equal(converted.Classes, ds.Classes) {
		t.Fatalf("%d images in %q", converted.Len(), converted.Classes)
	}
	for i := range ds.Len() {
		if converted.Label(i) != ds.Label(i) || !bytes.Equal(contentOf(t, converted, i), contentOf(t, ds, i)) {
			t.Errorf("%s is not %s", converted.Path(i), ds.Path(i))
		}
	}
}
