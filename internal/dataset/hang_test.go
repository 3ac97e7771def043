package dataset

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/hangfs"
	"github.com/batchfs/batchfs/internal/testkit"
)

// TestOpenWhereTheKernelHangs: whichever call hangs, Open returns when its context is done. The
// abandoned calls end when the storage responds, close what they opened, and report no progress.
func TestOpenWhereTheKernelHangs(t *testing.T) {
	for _, what := range []string{"list", "open", "read", "manifest"} {
		content := []byte(image("jpeg", 10, 20, 1))
		f := hangfs.Mount(t, t.TempDir(), map[string][]byte{"a/1.jpg": content, "b/2.jpg": content, "m.csv": []byte("path\na/1.jpg\n")})
		p := newPlace(t)
		path := f.Dir
		if what == "manifest" {
			path, what = f.Dir+"/m.csv", "read"
		}
		d, err := Open(t.Context(), path, p.options())
		testkit.Must(t, err)
		d.Close()
		before, reports := descriptors(t), 0
		f.Hang(what)
		ctx, cancel := context.WithCancel(t.Context())
		opened := make(chan error, 1)
		o := p.options()
		o.CacheDir = ""
		o.Progress = func(int64, int64) { reports++ }
		go func() {
			_, err := Open(ctx, path, o)
			opened <- err
		}()
		<-f.Hung
		cancel()
		select {
		case err := <-opened:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("Open waits for the storage to %s", what)
		}
		seen := reports // no lock needed: no more reports come
		f.Release()
		eventually(t, what+": descriptors are closed", func() bool { return descriptors(t) <= before })
		if reports != seen {
			t.Errorf("%s: progress after Open", what)
		}
	}
}

// TestRemountBeneathADataset: storage whose server died is away, with or without its mountpoint.
// Storage mounted there afterwards is read.
func TestRemountBeneathADataset(t *testing.T) {
	content := []byte(image("jpeg", 10, 20, 1))
	files := map[string][]byte{"a/1.jpg": content, "b/2.jpg": content}
	dir := t.TempDir()
	first := hangfs.Mount(t, dir, files)
	p := newPlace(t)
	d, err := Open(t.Context(), dir, p.options())
	testkit.Must(t, err)
	defer d.Close()
	held, err := os.Open(dir)
	testkit.Must(t, err)
	defer held.Close()
	first.Die(t)
	for call, err := range map[string]error{"Load": loadError(d, 0), "Check": checkError(d, 1)} {
		if err == nil || fault.Of(err) == fault.File {
			t.Errorf("dead: %s: %v", call, err)
		}
	}
	first.Detach(t)
	for call, err := range map[string]error{"Load": loadError(d, 0), "Check": checkError(d, 1)} {
		if !errors.Is(err, ErrAway) {
			t.Errorf("unmounted: %s: %v", call, err)
		}
	}
	hangfs.Mount(t, dir, map[string][]byte{"a/1.jpg": content, "b/2.jpg": []byte("another")})
	if got, err := d.Read(0, nil, grow); err != nil || string(got) != string(content) {
		t.Errorf("mounted anew: %q, %v", got, err)
	}
	if err := loadError(d, 1); !errors.Is(err, ErrChanged) {
		t.Errorf("another file: %v", err)
	}
	d.Close()
}

// TestLinkIntoStorageThatFailed: a class that cannot be examined is an error. A dataset without it
// would have other labels.
func TestLinkIntoStorageThatFailed(t *testing.T) {
	p := newPlace(t)
	p.images("b/1.jpg")
	away := hangfs.Mount(t, t.TempDir(), map[string][]byte{"1.jpg": []byte(image("jpeg", 10, 20, 1))})
	p.link(away.Dir, "a")
	if d := p.open(""); d.Label(d.Len()-1) != 1 {
		t.Fatalf("label %d", d.Label(d.Len()-1))
	}
	held, err := os.Open(away.Dir)
	testkit.Must(t, err)
	defer held.Close()
	away.Die(t)
	defer away.Detach(t)
	if d, err := p.tryOpen(""); !errors.Is(err, unix.ENOTCONN) {
		t.Errorf("%v; dataset %+v", err, d)
	}
}
