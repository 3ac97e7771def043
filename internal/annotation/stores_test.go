package annotation

import (
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/internal/fakestore"
	"github.com/batchfs/batchfs/internal/store"
	"github.com/batchfs/batchfs/internal/target"
)

// TestStores: what is in an object store is found there as it would be on a disk.
func TestStores(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{
		"bucket/train2017/a.jpg": "", "bucket/annotations/instances_train2017.json": cocoFile(`{"id": 1, "image_id": 1, "category_id": 5, "bbox": [1,2,3,4]}`),
		"bucket/yolo/images/train/a.jpg": "", "bucket/yolo/labels/train/a.txt": "1 0.5 0.5 0.2 0.2", "bucket/yolo/labels/train/x/b.txt": "",
		"bucket/yolo/classes.txt": "one\ntwo\n", "bucket/seg/images/a.png": "", "bucket/seg/masks/a.png": "", "bucket/seg/masks/.hidden.png": "",
	})
	server := httptest.NewServer(&fakestore.Server{Dir: root})
	defer server.Close()
	there := store.Options{Endpoint: server.URL, Anonymous: true, Region: "us-east-1"}
	for place, o := range map[string]Options{
		"train2017": boxes, "yolo/images/train": boxes, "seg/images": {Kinds: kindsOf(target.Masks)},
		"seg": {Kinds: boxes.Kinds, Files: []string{"annotations/instances_train2017.json"}},
	} {
		files := o.Files
		at := func(root string) (*Found, map[string]said) {
			t.Helper()
			o.Files, o.Source.Workers, o.Source.Store = nil, 2, there
			for _, file := range files {
				o.Files = append(o.Files, root+file)
			}
			return find(t, root+place, o)
		}
		disk, want := at(root + "/bucket/")
		remote, got := at("s3://bucket/")
		if diff := cmp.Diff(want, got, plainly); diff != "" || len(got) == 0 {
			t.Errorf("%s: %s", place, diff)
		}
		sources := strings.ReplaceAll(strings.Join(disk.Sources, " "), root+"/bucket/", "s3://bucket/")
		if remote.Layout != disk.Layout || strings.Join(remote.Sources, " ") != sources {
			t.Errorf("%s: %s %q, and not %s %s", place, remote.Layout, remote.Sources, disk.Layout, sources)
		}
		if m := remote.Masks; m != nil && m.Path != "s3://bucket/seg/masks" {
			t.Errorf("masks are at %s", m.Path)
		}

		o.Dir = t.TempDir()
		for range 2 {
			f, err := Open(t.Context(), "s3://bucket/"+place, o)
			if err != nil {
				t.Fatal(err)
			}
			if !f.Builder.Kept() {
				t.Errorf("%s: nothing is kept", place)
			}
			if err := f.Builder.Close(); err != nil {
				t.Error(err)
			}
		}
		if files, _ := filepath.Glob(o.Dir + "/*"); len(files) != 1 {
			t.Errorf("%s: %q are kept", place, files)
		}
	}
	err := findError(t, "s3://bucket/seg", Options{Kinds: boxes.Kinds, Files: []string{"https://user:secret@host/a.json?signature=secret"}})
	if !strings.Contains(err.Error(), "https://host/a.json: annotations are read from URLs without a query") || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
	server.Close()
	if err := findError(t, "s3://bucket/yolo/images/train", Options{Kinds: boxes.Kinds, Source: dataset.Options{Store: store.Options{Endpoint: server.URL, Anonymous: true, Wait: -1}}}); strings.Contains(err.Error(), "no annotations found") {
		t.Error(err)
	}
}
