package dataset

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

// located is the dataset of a place.
func located(t testing.TB, p *place) *source {
	t.Helper()
	src, err := locate(t.Context(), p.root, &Options{})
	testkit.Must(t, err)
	return src
}

// forge writes an index that is valid apart from what change does to it.
func forge(t testing.TB, p *place, path string, change func(*index)) {
	t.Helper()
	src := located(t, p)
	x, err := (&opening{ctx: t.Context(), src: src}).listDirectory()
	testkit.Must(t, err)
	x.derive()
	change(x)
	testkit.Must(t, saveFacts(t.Context(), x, path, src, true))
}

// TestPathsOfAnIndex: an index's paths are judged like a manifest's, and an index with a path
// that no listing could have found is rebuilt.
func TestPathsOfAnIndex(t *testing.T) {
	p := newPlace(t)
	p.images("a/1.jpg", "b/2.jpg")
	p.settle()
	d := p.open("")
	want := describe(d)
	for _, path := range []string{
		"/etc/passwd", "../outside.jpg", "..", ".", "/", "a/../../outside.jpg", "a/../1.jpg", "./a/1.jpg", "a//1.jpg", "a/1.jpg/", "a/./1.jpg",
		strings.Repeat("a/", maxPath/2+1),
	} {
		for what, change := range map[string]func(*index){
			"sample": func(x *index) {
				x.table = newTable(0, 0)
				x.table.appendRow("a/1.jpg", 0)
				x.table.appendRow(path, 1)
			},
			"directory": func(x *index) { x.Dirs = append(x.Dirs, dirStamp{Path: []byte(path), stamp: x.Dirs[0].stamp}) },
		} {
			forge(t, p, d.IndexPath, change)
			if _, err := loadFacts(t.Context(), d.IndexPath, located(t, p)); err == nil {
				t.Errorf("%s %.40q: believed", what, path)
			}
			if got := describe(p.open("")); !slices.Equal(got, want) {
				t.Errorf("%s %.40q: %.300q", what, path, got)
			}
		}
	}
}

// TestProblemsOfAnIndex: a problem in an index becomes a single bounded line.
func TestProblemsOfAnIndex(t *testing.T) {
	p := newPlace(t)
	p.images("a/1.jpg", "b/2.jpg")
	p.settle()
	d := p.open("")
	forge(t, p, d.IndexPath, func(x *index) {
		x.table.addBad(0, "line\nline\xff"+strings.Repeat("x", 5000), false)
	})
	x, err := loadFacts(t.Context(), d.IndexPath, located(t, p))
	if err != nil || len(problemOf(x.table, 0)) > maxReason || !strings.HasPrefix(problemOf(x.table, 0), "line line?x") {
		t.Errorf("%v", err)
	}
}

// TestCountsOfAnIndex: an index's counts are limited by the file's size before any memory is
// allocated for them.
func TestCountsOfAnIndex(t *testing.T) {
	src := located(t, newPlace(t))
	for name, write := range map[string]func(w *factsWriter){
		"rows of a block":   func(w *factsWriter) { w.Put(rowsRecord, []byte("\xfe\xff\xff\xff\x0f\x00")) },
		"bytes of a path":   func(w *factsWriter) { w.Put(rowsRecord, []byte("\x02\x00\x00\xfe\xff\xff\xff\x0f0000000000000000")) },
		"rows of a listing": func(w *factsWriter) { w.json(listingRecord, listing{Rows: 2e9}) },
	} {
		var file bytes.Buffer
		w := newFactsWriter(&file, about{Rows: 2e9, PathBytes: 2e12}, src)
		write(w)
		w.Flush()
		var err error
		n := testkit.Allocated(func() { _, err = readFacts(t.Context(), &file, int64(file.Len()), src) })
		if err == nil || n > 4<<20 {
			t.Errorf("%s: %d bytes allocated, %v", name, n, err)
		}
	}
}

// TestIndexThatOthersCouldHaveWritten: such an index is not used, and the log says why and what
// to do.
func TestIndexThatOthersCouldHaveWritten(t *testing.T) {
	for name, c := range map[string]struct {
		change func(file string) error
		kept   bool // it is replaced by an index that the user owns
	}{
		"file":      {func(f string) error { return os.Chmod(f, 0o602) }, true},
		"directory": {func(f string) error { return os.Chmod(filepath.Dir(f), 0o777|os.ModeSticky) }, false},
	} {
		p := newPlace(t)
		p.images("a/1.jpg")
		p.settle()
		d := p.open("")
		testkit.Must(t, c.change(d.IndexPath))
		var log bytes.Buffer
		p.probes()
		again := p.open("", func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		if p.probes() != 1 {
			t.Errorf("%s: the index was used", name)
		}
		if text := log.String(); !strings.Contains(text, "index") || !strings.Contains(text, "level=WARN") {
			t.Errorf("%s: the log says %q", name, text)
		}
		if kept := again.IndexPath != ""; kept != c.kept || kept == (again.Report.IndexProblem != "") {
			t.Errorf("%s: kept %t, problem %q", name, kept, again.Report.IndexProblem)
		}
		if d := p.open(""); (d.Report.Reused == 1) != c.kept {
			t.Errorf("%s: afterwards %+v", name, d.Report)
		}
	}
}

func cmpErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
