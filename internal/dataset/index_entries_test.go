package dataset

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/batchfs/batchfs/internal/entries"
	"github.com/batchfs/batchfs/internal/testkit"
)

func entryFile(d *Dataset, i int) entries.File {
	id := d.Stat(i)
	return entries.File{Path: d.Path(i), Size: id.Size, ModTime: id.ModTime}
}

// pointsOf returns the entry points stored for a file, "" if none are.
func pointsOf(t *testing.T, d *Dataset, s *entries.Store, name string) string {
	t.Helper()
	for i := range d.Len() {
		if d.Path(i) == name {
			p, _ := s.Get(entryFile(d, i), new(entries.Buffer))
			return string(p.Bytes)
		}
	}
	t.Fatalf("no sample %s", name)
	return ""
}

// padded turns a path into entry points.
func padded(path string) string { return path + strings.Repeat(".", 8-len(path)%8) }

// putNames stores the path of each file as its entry points.
func putNames(t *testing.T, d *Dataset) {
	t.Helper()
	s, err := d.OpenEntries(entries.Options{Rule: -1})
	testkit.Must(t, err)
	for i := range d.Len() {
		s.Put(entryFile(d, i), entries.Points{Bytes: []byte(padded(d.Path(i)))})
	}
	testkit.Must(t, s.Close())
}

// TestEntriesOutliveTheIndex: when the index is rebuilt, the entry points of unchanged files stay,
// wherever their rows move, and whatever labels their classes get.
func TestEntriesOutliveTheIndex(t *testing.T) {
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
		testkit.Must(t, err)
		for name, want := range map[string]string{"a/0.jpg": "", "b/1.jpg": "b/1.jpg.", "b/11.jpg": "", "b/2.jpg": "", "c/4.jpg": "c/4.jpg."} {
			if got := pointsOf(t, d, s, name); got != want {
				t.Errorf("%s: %q instead of %q", name, got, want)
			}
		}
		testkit.Must(t, s.Close())
	}
	if names, _ := filepath.Glob(filepath.Join(p.cache, "*")); len(names) != 2 {
		t.Errorf("%q", names)
	}
}

// TestEntriesOfAList: a list of datasets has entry points of its own. Opening a part of the list
// leaves the other parts' entry points alone.
func TestEntriesOfAList(t *testing.T) {
	p := newPlace(t)
	for i := range 12 {
		p.images(fmt.Sprintf("a/%d.jpg", i), fmt.Sprintf("b/%d.jpg", i))
	}
	p.write("list.txt", "a\nb\n")
	p.settle()
	putNames(t, p.open("list.txt"))
	if part := p.open("list.txt", func(o *Options) { o.Part = Share{1, 12} }); part.Len() != 2 {
		t.Fatalf("%d samples", part.Len())
	}
	d := p.open("list.txt")
	s, err := d.OpenEntries(entries.Options{Rule: -1})
	testkit.Must(t, err)
	defer s.Close()
	for i := range d.Len() {
		if got, want := pointsOf(t, d, s, d.Path(i)), padded(d.Path(i)); got != want {
			t.Errorf("%s: %q", d.Path(i), got)
		}
	}
}

// endingContext ends after a number of calls of Err.
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

// TestEntriesSurviveAnInterruption: wherever an interruption stops the indexing of a dataset that
// grew, entry points are kept for the next attempt, and nothing else is left behind.
func TestEntriesSurviveAnInterruption(t *testing.T) {
	p := newPlace(t)
	p.images("a/1.jpg", "a/2.jpg", "a/3.jpg")
	p.settle()
	putNames(t, p.open(""))
	for i := range 10 {
		p.images(fmt.Sprintf("a/0%d.jpg", i))
	}
	kept := func() []string {
		names, _ := filepath.Glob(filepath.Join(p.cache, "*"))
		return names
	}
	before := map[string][]byte{}
	for _, name := range kept() {
		before[name], _ = os.ReadFile(name)
	}
	grown := func() bool {
		for name, data := range before {
			if info, err := os.Stat(name); err == nil && filepath.Ext(name) == ".entries" {
				return info.Size() > int64(len(data))
			}
		}
		return false
	}
	for n := int64(0); ; n++ {
		for name, data := range before {
			testkit.Must(t, os.WriteFile(name, data, 0o600))
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
		if !grown() {
			t.Fatal("there is no room for those of the samples that were added")
		}
		if err == nil {
			if n < 10 {
				t.Errorf("interrupted %d times only", n)
			}
			return
		}
	}
}

// TestNoEntriesWithoutIndex: entry points are kept beside the index or not at all.
func TestNoEntriesWithoutIndex(t *testing.T) {
	p := newPlace(t)
	p.images("1.jpg")
	if _, err := p.open("", func(o *Options) { o.CacheDir = "" }).OpenEntries(entries.Options{Rule: -1}); err != ErrNoIndex {
		t.Errorf("%v", err)
	}
}
