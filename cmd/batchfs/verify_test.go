package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/jpeg"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/annotation"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/hangfs"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

func jpegOf(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	testkit.Must(t, jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 16, 16)), nil))
	return b.Bytes()
}

// TestVerifyAndMountsAgree: verify and mounts agree on which files are bad, whatever is wrong with
// them.
func TestVerifyAndMountsAgree(t *testing.T) {
	data := photos(t, 1)
	put := func(name string, content []byte) { save(t, filepath.Join(data, "a", name), content) }
	good := jpegOf(t)
	put("good.jpg", good)
	put("cut.jpg", good[:len(good)-20])
	put("empty.jpg", nil)
	put("rubbish.jpg", []byte("rubbish"))
	os.Symlink("/nowhere", filepath.Join(data, "a", "gone.jpg"))
	os.Mkdir(filepath.Join(data, "a", "y"), 0o755)
	os.Symlink("y", filepath.Join(data, "a", "z.jpg")) // a directory, so not a sample
	far := bytes.NewBuffer(good[:2:2])
	for range 1100 { // more than 64 MiB of comments before the image
		far.Write([]byte{0xff, 0xfe, 0xff, 0xff})
		far.Write(make([]byte, 0xfffd))
	}
	put("far.jpg", append(far.Bytes(), good[2:]...))
	writeImage(t, filepath.Join(data, "a", "large.png"), 40, 40)

	got := batchfs(t, "verify", "--json", "--max-pixels", "1000", data)
	var r annotation.Verdict
	testkit.Must(t, json.Unmarshal([]byte(got.out), &r))
	verdict := map[string]bool{}
	for _, b := range r.Bad {
		verdict[b.Path] = true
	}
	if want := 6; len(verdict) != want || len(r.Unread) > 0 {
		t.Errorf("%d of %d are bad: %+v", len(verdict), want, r)
	}
	ds, err := dataset.Open(t.Context(), data, dataset.Options{Prober: sample.Probe})
	testkit.Must(t, err)
	defer ds.Close()
	mount, err := requested(t, "--batch-size", "1", "--max-pixels", "1000", "--memory-limit", "512MiB", data, "mnt")
	testkit.Must(t, err)
	e, err := engine.New(ds, mount.engine)
	testkit.Must(t, err)
	defer e.Close()
	for i := range ds.Len() {
		f, err := e.Open(t.Context(), engine.Key{Batch: i}, layout.NHWCForm)
		if err == nil {
			f.Close()
		}
		if bad := err != nil; bad != verdict[ds.Path(i)] {
			t.Errorf("%s: verify says bad: %t; the mount: %v", ds.Path(i), verdict[ds.Path(i)], err)
		}
	}
}

// TestInterruptedWhereStorageHangs: commands end promptly, a mount before it is live, too.
func TestInterruptedWhereStorageHangs(t *testing.T) {
	f := hangfs.Mount(t, t.TempDir(), map[string][]byte{"a/1.jpg": jpegOf(t), "b/2.jpg": jpegOf(t)})
	for _, c := range []struct{ command, hangs string }{{"index", "open"}, {"index", "list"}, {"verify", "read"}, {"convert", "list"}, {"profile", "read"}, {"mount", "list"}} {
		t.Setenv("XDG_CACHE_HOME", filepath.Join(t.TempDir(), "cache"))
		if c.hangs == "read" && run(t.Context(), []string{"batchfs", "index", f.Dir}, io.Discard, io.Discard) != nil {
			t.Fatal("no index")
		}
		ctx, cancel := context.WithCancel(t.Context())
		f.Hang(c.hangs)
		args := []string{"batchfs", c.command, f.Dir}
		if c.command == "convert" {
			args = append(args, filepath.Join(t.TempDir(), "out"), "--raw-ratio", "1")
		}
		if c.command == "mount" {
			args = append(args, t.TempDir())
		}
		work := t.TempDir()
		if c.command == "profile" {
			args = append(args, "--work", work)
		}
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, args, io.Discard, io.Discard) }()
		<-f.Hung
		cancel()
		select {
		case err := <-ended:
			if exitStatus(err) != statusFailed || !strings.Contains(err.Error(), "interrupted") {
				t.Errorf("%v: %v", c, err)
			}
		case <-time.After(time.Minute):
			t.Errorf("%v waits for the storage", c)
		}
		f.Release()
		if left, err := os.ReadDir(work); err != nil || len(left) > 0 {
			t.Errorf("%v leaves %v, %v", c, left, err)
		}
	}
}

// TestHintNamesTheDirectory: the hint names the directory, or the file of annotations, that cannot
// be read, not the dataset.
func TestHintNamesTheDirectory(t *testing.T) {
	denied := "/data/photos/a/secret"
	err := fmt.Errorf("scan: %w", &fs.PathError{Op: "open", Path: denied, Err: unix.EACCES})
	for _, err := range []error{datasetError("/data/photos", err), annotationError("mount", "/data/photos", err)} {
		var out bytes.Buffer
		report(&out, err)
		if !strings.Contains(out.String(), "hint: ls -ld "+denied+"\n") {
			t.Errorf("says %q", out.String())
		}
	}
}

// TestHintNamesTheManifest: by what can be given again, a path or a URL.
func TestHintNamesTheManifest(t *testing.T) {
	for path, want := range map[string]string{"data/": "data/metadata.csv", "s3://bucket/": "s3://bucket/metadata.csv"} {
		var out bytes.Buffer
		report(&out, datasetError(path, dataset.ErrManifests))
		if !strings.Contains(out.String(), "as in "+want+",") {
			t.Errorf("says %q", out.String())
		}
	}
}
