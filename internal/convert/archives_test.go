package convert

import (
	"archive/tar"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fakestore"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/store"
	"github.com/batchfs/batchfs/internal/testkit"
)

// pack writes a tar of the files of a directory, in the order of their names. Symbolic links become
// links of the tar.
func pack(t testing.TB, name, dir string, more ...string) {
	t.Helper()
	f, err := os.Create(name)
	testkit.Must(t, err)
	defer f.Close()
	w := tar.NewWriter(f)
	testkit.Must(t, w.AddFS(os.DirFS(dir)))
	for k := 0; k < len(more); k += 2 {
		h := &tar.Header{Name: more[k], Size: int64(len(more[k+1])), Mode: 0o644}
		if more[k+1] == "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, "/nowhere"
		}
		testkit.Must(t, w.WriteHeader(h))
		if _, err := w.Write([]byte(more[k+1])); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Must(t, w.Close())
}

// TestConvertArchives: from a tar or a store, the same samples become raw, with the same pixels, as
// from the directory. Running again finds everything done, and parts make the same result as a
// single run.
func TestConvertArchives(t *testing.T) {
	dir := filepath.Dir(small(t))
	testkit.Must(t, os.Remove(filepath.Join(dir, "small/b/gone.png")))
	pack(t, filepath.Join(dir, "small.tar"), filepath.Join(dir, "small"))
	server := httptest.NewServer(&fakestore.Server{Dir: filepath.Dir(dir)})
	defer server.Close()
	bucket := "s3://" + filepath.Base(dir)
	openAny := func(path string) *dataset.Dataset {
		o := dataset.Options{Prober: sample.Probe, Rescan: true, Store: store.Options{Endpoint: server.URL, Anonymous: true}}
		ds, err := dataset.Open(context.Background(), path, o)
		testkit.Must(t, err)
		t.Cleanup(func() { ds.Close() })
		return ds
	}
	o := Options{Shares: Shares{Raw: 0.5}, Format: PPM, Seed: 5}
	wanted, was := convert(t, filepath.Join(dir, "small"), o)
	want := openAny(wanted)
	for _, path := range []string{filepath.Join(dir, "small.tar"), bucket + "/small", bucket + "/small.tar"} {
		out := filepath.Join(t.TempDir(), "out")
		for k := range 2 {
			part := o
			part.Part = dataset.Share{K: k, N: 2}
			if _, err := Write(context.Background(), openAny(path), out, part); err != nil {
				t.Fatal(err)
			}
		}
		merge := o
		merge.Merge = true
		r, err := Write(context.Background(), openAny(path), out, merge)
		if err != nil {
			t.Fatal(path, err)
		}
		if r.Raw != was.Raw || r.Reused != r.Samples || len(r.Unreadable) != len(was.Unreadable) || r.Symlinked != 0 {
			t.Errorf("%s: %+v, of the directory %+v", path, r, was)
		}
		is := openAny(out)
		if is.Digest != want.Digest {
			t.Errorf("%s: %d samples, digest %s", path, is.Len(), is.Digest)
		}
		for i := range want.Len() {
			a, _ := os.ReadFile(filepath.Join(wanted, want.Path(i)))
			b, err := os.ReadFile(filepath.Join(out, is.Path(i)))
			if err != nil || !slices.Equal(a, b) {
				t.Errorf("%s: %s is not %s, %v", path, is.Path(i), want.Path(i), err)
			}
		}
		if r, err := Write(context.Background(), openAny(path), out, o); err != nil || !r.Finished {
			t.Errorf("%s again: %+v, %v", path, r, err)
		}
	}
}

// TestConvertOrdered: a dataset with an order of its own keeps it, and its labels, whichever
// classes have samples; an unreadable sample keeps its place.
func TestConvertOrdered(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		labels  [3]string
		classes []string
	}{{[3]string{"7", "0", "7"}, nil}, {[3]string{"dog", "cat", "dog"}, []string{"cat", "dog"}}} {
		var files []string
		for k, label := range c.labels {
			files = append(files, fmt.Sprintf("%d.png", 9-k), string(pngOf(t, 5+k, 4, false)), fmt.Sprintf("%d.cls", 9-k), label)
		}
		files = append(files, "1.png", "", "1.cls", c.labels[0])
		path := filepath.Join(dir, "x.tar")
		pack(t, path, t.TempDir(), files...)
		was := open(t, path)
		out, r := convert(t, path, Options{Shares: Shares{Raw: 0.5}})
		is := open(t, out)
		sameSamples(t, was, is)
		if r.Raw != 2 || r.Copied != 1 || r.Symlinked != 1 || !slices.Equal(is.Classes, c.classes) || filepath.Base(is.Manifest) != filepath.Base(r.Manifest) {
			t.Errorf("%v: %+v, classes %q, manifest %q", c.labels, r, is.Classes, is.Manifest)
		}
	}
	// As labels, names would change if classes have an order of their own, or no samples.
	for _, classes := range [][]string{{"dog", "cat"}, {"cat", "cow", "dog"}} {
		was, err := dataset.Open(context.Background(), filepath.Join(dir, "x.tar"), dataset.Options{Prober: sample.Probe, Rescan: true, Classes: classes})
		testkit.Must(t, err)
		defer was.Close()
		out := filepath.Join(t.TempDir(), "out")
		r, err := Write(context.Background(), was, out, Options{})
		testkit.Must(t, err)
		text, err := os.ReadFile(r.Classes)
		if names, _ := dataset.ParseClasses(text); err != nil || !slices.Equal(names, classes) {
			t.Errorf("%s holds %q, %v", r.Classes, names, err)
		}
		sameSamples(t, was, open(t, out))
	}
}
