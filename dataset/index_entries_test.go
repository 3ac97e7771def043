package dataset

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/batchfs/batchfs/internal/entries"
)

// pointsOf returns the entry points stored for a file, "" if none are.
func pointsOf(t *testing.T, d *Dataset, s *entries.Store, name string) string {
	t.Helper()
	for i := range d.Len() {
		if d.Path(i) == name {
			id := d.Stat(i)
			p, _ := s.Get(i, entries.File{Path: name, Size: id.Size, ModTime: id.ModTime}, new(entries.Buffer))
			return string(p.Bytes)
		}
	}
	t.Fatalf("no sample %s", name)
	return ""
}

// putNames stores the path of each file as its entry points.
func putNames(t *testing.T, d *Dataset) {
	t.Helper()
	s, err := d.OpenEntries(entries.Options{Rule: -1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range d.Len() {
		id := d.Stat(i)
		s.Put(i, entries.File{Path: d.Path(i), Size: id.Size, ModTime: id.ModTime}, entries.Points{Bytes: []byte(d.Path(i) + ".")})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestEntriesFollowTheIndex: when the index is made anew, the entry points of files that did not
// change stay, wherever their rows move, and whichever labels their classes have.
func TestEntriesFollowTheIndex(t *testing.T) {
	p := newPlace(t)
	p.images("b/1.jpg", "b/2.jpg", "c/3.jpg", "c/4.jpg")
	p.settle()
	d := p.open("")
	putNames(t, d)
	p.images("a/0.jpg", "b/11.jpg")
	os.Remove(p.path("c/3.jpg"))
	p.write("b/2.jpg", image("jpeg", 11, 21, 1)+" of another size")
	for _, change := range []func(*Options){
		func(o *Options) { o.Rescan = true }, func(*Options) {}, func(o *Options) { o.Classes = []string{"c", "b", "a"} },
	} {
		d = p.open("", change)
		s, err := d.OpenEntries(entries.Options{Rule: -1})
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"a/0.jpg": "", "b/1.jpg": "b/1.jpg.", "b/11.jpg": "", "b/2.jpg": "", "c/4.jpg": "c/4.jpg."} {
			if got := pointsOf(t, d, s, name); got != want {
				t.Errorf("%s: %q instead of %q", name, got, want)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if names, _ := filepath.Glob(filepath.Join(p.cache, "*")); len(names) != 2 {
		t.Errorf("%q", names)
	}
}

// endingContext ends when it was asked so many times whether it has.
type endingContext struct {
	context.Context
	left atomic.Int64
}

func (c *endingContext) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// TestEntriesSurviveAnInterruption: wherever making an index anew is interrupted, entry points are kept for
// the next attempt, and nothing else is left behind.
func TestEntriesSurviveAnInterruption(t *testing.T) {
	p := newPlace(t)
	p.images("a/1.jpg", "a/2.jpg", "a/3.jpg")
	p.settle()
	putNames(t, p.open(""))
	p.images("a/0.jpg")
	kept := func() []string {
		names, _ := filepath.Glob(filepath.Join(p.cache, "*"))
		return names
	}
	before := map[string][]byte{}
	for _, name := range kept() {
		before[name], _ = os.ReadFile(name)
	}
	for n := int64(0); ; n++ {
		for name, data := range before {
			if err := os.WriteFile(name, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		ctx := &endingContext{Context: t.Context()}
		ctx.left.Store(n)
		o := p.options()
		o.Logger = slog.New(slog.DiscardHandler)
		interrupted, err := open(ctx, p.path(""), o)
		if err == nil {
			interrupted.Close()
		}
		if len(kept()) != 2 {
			t.Fatalf("interrupted at %d: %q", n, kept())
		}
		d := p.open("")
		s, failed := d.OpenEntries(entries.Options{Rule: -1})
		if failed != nil {
			t.Fatal(failed)
		}
		for _, name := range []string{"a/1.jpg", "a/2.jpg", "a/3.jpg"} {
			if got := pointsOf(t, d, s, name); got != name+"." {
				t.Errorf("interrupted at %d: %s has %q", n, name, got)
			}
		}
		s.Close()
		if err == nil {
			if n < 10 {
				t.Errorf("interrupted %d times only", n)
			}
			return
		}
	}
}

// TestNoEntriesWithoutIndex: they are kept beside the index or not at all.
func TestNoEntriesWithoutIndex(t *testing.T) {
	p := newPlace(t)
	p.images("1.jpg")
	if _, err := p.open("", func(o *Options) { o.CacheDir = "" }).OpenEntries(entries.Options{Rule: -1}); err != ErrNoIndex {
		t.Errorf("%v", err)
	}
}
