package annotation

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/target"
)

// settle has a file look as if nobody had changed it for long.
func settle(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, time.Time{}, time.Now().Add(-time.Hour))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// layoutsToKeep are datasets, each with a file that can be changed.
func layoutsToKeep(t *testing.T) map[string]Options {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"coco/train2017/a.jpg": "", "coco/annotations/instances_train2017.json": cocoFile(`{"id": 1, "image_id": 1, "category_id": 5, "bbox": [1,2,3,4]}`),
		"yolo/images/a.jpg": "", "yolo/labels/a.txt": "1 0.5 0.5 0.2 0.2", "yolo/labels/b.txt": "",
		"masks/images/a.png": "", "masks/masks/a.png": "",
		"m/m.jsonl": `{"path": "a.jpg", "boxes": [[1, 2, 3, 4, "x"]], "say": "hello", "pose": "p.npy"}`,
	})
	return map[string]Options{
		dir + "/coco/train2017": {Kinds: kindsOf(target.Boxes, target.Masks)},
		dir + "/yolo/images":    boxes,
		dir + "/masks":          {Kinds: kindsOf(target.Masks)},
		dir + "/m/m.jsonl":      {Kinds: kindsOf(target.Boxes, target.Text, target.Arrays)},
	}
}

// wordsOf is all that was found.
func wordsOf(f *Found, b *target.Builder) string {
	names := []string{"a", "a.jpg", "b", "b.jpg"}
	table, strays, err := b.Table(len(names), func(i int) string { return names[i] })
	if err != nil {
		return err.Error()
	}
	samples := 0
	for _, path := range []string{"a.jpg", "a.png", "b.jpg"} {
		if f.Only(path) {
			samples++
		}
	}
	masks := ""
	if f.Masks != nil {
		masks = fmt.Sprint(*f.Masks, f.Masks.Only("x.png"), f.Masks.Only("x.jpg"))
	}
	if f.Arrays != nil {
		masks += fmt.Sprint(*f.Arrays, table.Array(1, 0))
	}
	return fmt.Sprint(f.Layout, f.Images, f.Sources, f.Classes, f.MaskClasses, f.Values, b.Objects(), f.Strays, f.Entries(), f.Example(), masks,
		samples, strays, table.Digest(), table.Bad(1))
}

// TestKeptAnnotations: what was read is found again, as long as nothing that it depends on has
// changed.
func TestKeptAnnotations(t *testing.T) {
	for path, o := range layoutsToKeep(t) {
		var log bytes.Buffer
		read := int64(0)
		o.Dir, o.Source.Logger = t.TempDir(), slog.New(slog.NewTextHandler(&log, nil))
		o.Progress = func(done, _ int64) { read = max(read, done) }
		open := func() (words string, again bool) {
			t.Helper()
			read = 0
			f, err := Open(t.Context(), path, o)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Builder.Close()
			files, _ := filepath.Glob(o.Dir + "/*" + keptExtension)
			return wordsOf(f, f.Builder), len(files) == 1 && f.Builder.Kept()
		}
		root := filepath.Dir(path)
		settle(t, root)
		want, _ := open()
		if words, again := open(); words != want || !again {
			t.Errorf("%s: %v, %s, and before %s", path, again, words, want)
		}
		if isText := strings.HasSuffix(path, "train2017"); isText && read > 0 {
			t.Errorf("%s: %d bytes were read again", path, read)
		}

		files, _ := filepath.Glob(o.Dir + "/*" + keptExtension)
		for what, damage := range map[string]func() error{
			"cut off": func() error { return os.Truncate(files[0], 100) },
			"empty":   func() error { return os.Truncate(files[0], 0) },
			"foreign": func() error { return os.WriteFile(files[0], []byte(strings.Repeat("another file ", 99)), 0o600) },
		} {
			if err := damage(); err != nil {
				t.Fatal(err)
			}
			log.Reset()
			if words, _ := open(); words != want || strings.Count(log.String(), "annotations are read again") != 1 {
				t.Errorf("%s, %s: %s, and before %s; %s", path, what, words, want, &log)
			}
		}

		log.Reset()
		add := map[string]string{"masks": "masks/b.png", "images": "labels/c.txt"}[filepath.Base(path)]
		if add == "" {
			add = map[string]string{".jsonl": "m.jsonl"}[filepath.Ext(path)]
		}
		switch add {
		case "m.jsonl":
			write(t, root, map[string]string{add: `{"path": "b.jpg", "boxes": [], "say": "", "pose": "q.npy"}`})
		case "":
			write(t, root, map[string]string{"annotations/instances_train2017.json": cocoFile(`{"id": 1, "image_id": 2, "category_id": 5, "bbox": [1,2,3,4]}`)})
		default:
			if filepath.Base(path) == "masks" {
				root = path
			}
			write(t, root, map[string]string{add: ""})
		}
		if words, _ := open(); words == want || log.Len() > 0 {
			t.Errorf("%s: after a change, it is the same; %s", path, &log)
		}
	}
}

// TestNotKept: nothing is kept of a file that was changed just now, and another one of the same
// size and time might be.
func TestNotKept(t *testing.T) {
	for path, o := range layoutsToKeep(t) {
		o.Dir = t.TempDir()
		now := time.Now().Add(time.Minute)
		_ = filepath.WalkDir(filepath.Dir(path), func(path string, _ os.DirEntry, _ error) error { return os.Chtimes(path, now, now) })
		f, err := Open(t.Context(), path, o)
		if err != nil {
			t.Fatal(err)
		}
		kept := f.Builder.Kept()
		if err := f.Builder.Close(); err != nil || kept && filepath.Base(path) != "masks" { // of masks, only the names are read
			t.Errorf("%s: %v, %v", path, kept, err)
		}
	}
}
