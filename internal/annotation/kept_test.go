package annotation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fakestore"
	"github.com/batchfs/batchfs/internal/store"
	"github.com/batchfs/batchfs/internal/target"
	"github.com/batchfs/batchfs/internal/testkit"
)

// touch makes files look as if they were last changed some time ago.
func touch(t *testing.T, dir string, ago time.Duration) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, time.Time{}, time.Now().Add(-ago))
	})
	testkit.Must(t, err)
}

// TestKeptAnnotations: an object store gives the same result as a disk. The result is kept, and
// used while nothing that it depends on has changed, or might have.
func TestKeptAnnotations(t *testing.T) {
	type row struct {
		Image   hfImage  `parquet:"image"`
		Mask    *hfImage `parquet:"mask"`
		Caption string   `parquet:"caption"`
	}
	root := t.TempDir()
	dir := root + "/bucket"
	shard := func(k int) string {
		path := filepath.Join(root, "shard")
		writeRows(t, path, []row{{picture(fmt.Sprint(k), 1<<20), nil, "long"}})
		data, err := os.ReadFile(path)
		testkit.Must(t, err)
		return string(data)
	}
	const coco, manifest = "annotations/instances_train2017.json", `{"path": "a.jpg", "boxes": [[1, 2, 3, 4, "x"]], "say": "hello", "pose": "p.npy"}`
	files := map[string]string{
		"train2017/a.jpg": "", coco: cocoFile(`{"id": 1, "image_id": 1, "category_id": 5, "bbox": [1,2,3,4]}`),
		"yolo/images/train/a.jpg": "", "yolo/labels/train/a.txt": "1 0.5 0.5 0.2 0.2", "yolo/labels/train/x/b.txt": "", "yolo/classes.txt": "one\ntwo\n",
		"seg/images/a.png": "", "seg/masks/a.png": "", "seg/masks/.hidden.png": "", "m/m.jsonl": manifest, "p/0.parquet": shard(0),
	}
	write(t, dir, files)
	server := httptest.NewServer(&fakestore.Server{Dir: root})
	defer server.Close()
	there := dataset.Options{Workers: 2, Store: store.Options{Endpoint: server.URL, Anonymous: true, Region: "us-east-1"}}
	for _, c := range []struct {
		place         string
		kinds         Kinds
		file          string // that is named
		other, change string // a file, and what it has after a change
	}{
		{"train2017", kindsOf(target.Boxes, target.Masks), "", coco, cocoFile(`{"id": 1, "image_id": 2, "category_id": 5, "bbox": [1,2,3,4]}`)},
		{"yolo/images/train", boxes.Kinds, "", "yolo/labels/train/c.txt", ""},
		{"seg/images", masks.Kinds, "", "seg/masks/b.png", ""},
		{"seg/images", boxes.Kinds, coco, coco, cocoFile(`{"id": 9, "image_id": 1, "category_id": 5, "bbox": [1,2,3,4]}`)},
		{"m/m.jsonl", kindsOf(target.Boxes, target.Text, target.Arrays), "", "m/m.jsonl", strings.Replace(manifest, "hello", "world", 1)},
		{"p", kindsOf(target.Text), "", "p/1.parquet", shard(1)},
		{"p/*.parquet", kindsOf(target.Text), "", "p/1.parquet", shard(1)},
	} {
		onDisk := ""
		for _, at := range []string{dir, "s3://bucket"} {
			what := at + "/" + c.place
			var log bytes.Buffer
			o := Options{Kinds: c.kinds, Source: there, dir: t.TempDir()}
			o.Source.Logger = slog.New(slog.NewTextHandler(&log, nil))
			if c.file != "" {
				o.Files = []string{at + "/" + c.file}
			}
			read := int64(0)
			o.Progress = func(done, _ int64) { read = max(read, done) }
			open := func() (words string, kept bool) {
				t.Helper()
				read = 0
				log.Reset()
				f, said := find(t, what, o)
				text, err := json.Marshal(f)
				testkit.Must(t, err)
				words = fmt.Sprintf("%s %s %d %v %+v", text, f.Images, f.Entries(), f.only("a.jpg"), said)
				return strings.NewReplacer(dir, "s3://bucket", `/p/"`, `/p"`).Replace(words), read == 0
			}

			if touch(t, root, -time.Minute); at == dir { // another change might not show
				if _, kept := open(); kept != (c.kinds == masks.Kinds) { // where only names are read
					t.Errorf("%s: %v of what was changed just now", what, kept)
				}
			}
			touch(t, root, time.Hour)
			want, _ := open()
			if onDisk != "" && want != onDisk {
				t.Errorf("%s: %s, and on a disk %s", what, want, onDisk)
			}
			onDisk = want
			if words, kept := open(); words != want || !kept || log.Len() > 0 {
				t.Errorf("%s: %v, %d bytes were read again: %s, and before %s; %s", what, kept, read, words, want, &log)
			}
			kept, _ := filepath.Glob(o.dir + "/*")
			if len(kept) != 1 || filepath.Ext(kept[0]) != keptExtension {
				t.Fatalf("%s: %q are kept", what, kept)
			}
			for damage, content := range map[string]string{"cut off": want[:99], "empty": "", "foreign": strings.Repeat("another file ", 99)} {
				testkit.Must(t, os.WriteFile(kept[0], []byte(content), 0o600))
				if words, _ := open(); words != want || strings.Count(log.String(), "annotations are read again") != 1 {
					t.Errorf("%s, %s: %s, and before %s; %s", what, damage, words, want, &log)
				}
			}

			write(t, dir, map[string]string{c.other: c.change})
			if words, _ := open(); words == want || log.Len() > 0 {
				t.Errorf("%s: after a change, it is the same; %s", what, &log)
			}
			if before, was := files[c.other]; was {
				write(t, dir, map[string]string{c.other: before})
			} else if err := os.Remove(filepath.Join(dir, c.other)); err != nil {
				t.Fatal(err)
			}
		}
	}

	err := findError(t, "s3://bucket/seg", Options{Kinds: boxes.Kinds, Files: []string{"https://user:secret@host/a.json?signature=secret"}})
	if !strings.Contains(err.Error(), "https://host/a.json: annotations are read from URLs without a query") || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
	server.Close()
	there.Store.Wait = -1
	if err := findError(t, "s3://bucket/yolo/images/train", Options{Kinds: boxes.Kinds, Source: there}); strings.Contains(err.Error(), "no annotations found") {
		t.Error(err)
	}
}

// TestKeptOfAStoreThatIsAway: a store that does not answer when a kept result is checked is not
// asked again for a search.
func TestKeptOfAStoreThatIsAway(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/bucket", map[string]string{"yolo/images/train/a.jpg": "", "yolo/labels/train/a.txt": "1 0.5 0.5 0.2 0.2", "yolo/classes.txt": "one\ntwo\n"})
	touch(t, root, time.Hour)
	var away atomic.Bool
	var refused atomic.Int64
	server := httptest.NewServer(&fakestore.Server{Dir: root, Before: func(w http.ResponseWriter, _ *http.Request) bool {
		if away.Load() {
			refused.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return away.Load()
	}})
	defer server.Close()
	o := Options{Kinds: boxes.Kinds, dir: t.TempDir()}
	o.Source = dataset.Options{Store: store.Options{Endpoint: server.URL, Anonymous: true, Region: "us-east-1", Wait: -1}}
	find(t, "s3://bucket/yolo/images/train", o)
	away.Store(true)
	const manifests = 3 // names of a manifest, which are asked for at once
	if err := findError(t, "s3://bucket/yolo/images/train", o); !errors.Is(err, store.ErrBusy) || refused.Load() > manifests {
		t.Errorf("%d requests, %v", refused.Load(), err)
	}
}
