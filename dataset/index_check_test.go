package dataset

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// forge writes an index that is valid except for what change does to it.
func forge(t testing.TB, p *place, path string, change func(*index)) {
	t.Helper()
	src, err := locate(t.Context(), p.root, &Options{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := listDirectory(context.Background(), src)
	if err != nil {
		t.Fatal(err)
	}
	x.complete(src)
	change(x)
	x.Rows, x.PathBytes = max(x.Rows, x.table.rows()), int64(len(x.table.paths))
	if err := saveIndex(context.Background(), path, x); err != nil {
		t.Fatal(err)
	}
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
			forge(t, p, d.IndexPath(), change)
			src, _ := locate(t.Context(), p.root, &Options{})
			if _, err := loadIndex(t.Context(), d.IndexPath(), src); err == nil {
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
	src, _ := locate(t.Context(), p.root, &Options{})
	forge(t, p, d.IndexPath(), func(x *index) {
		x.table.addBad(0, "line\nline\xff"+strings.Repeat("x", 5000), false)
	})
	x, err := loadIndex(t.Context(), d.IndexPath(), src)
	if err != nil || len(problemOf(x.table, 0)) > maxReason || !strings.HasPrefix(problemOf(x.table, 0), "line line?x") {
		t.Errorf("%v", err)
	}
}

// TestCountsOfAnIndex: an index's counts are limited by the file's size, and checked before any
// memory is allocated for them.
func TestCountsOfAnIndex(t *testing.T) {
	p := newPlace(t)
	p.images("a/1.jpg", "b/2.jpg")
	p.settle()
	d := p.open("")
	src, _ := locate(t.Context(), p.root, &Options{})
	for name, tamper := range map[string]func(*format.FileMetaData){
		"rows everywhere": func(m *format.FileMetaData) {
			setFacts(m, `"rows":2,`, `"rows":2000000000,`)
			m.NumRows, m.RowGroups[0].NumRows = 2e9, 2e9
			for k := range m.RowGroups[0].Columns {
				m.RowGroups[0].Columns[k].MetaData.NumValues = 2e9
			}
		},
		"bytes of paths":     func(m *format.FileMetaData) { setFacts(m, `"path_bytes":14,`, `"path_bytes":2000000000000,`) },
		"negative":           func(m *format.FileMetaData) { setFacts(m, `"path_bytes":14,`, `"path_bytes":-14,`) },
		"values of a column": func(m *format.FileMetaData) { m.RowGroups[0].Columns[2].MetaData.NumValues = 2e9 },
		"rows of a group":    func(m *format.FileMetaData) { m.RowGroups[0].NumRows = 2e9 },
		"offset":             func(m *format.FileMetaData) { m.RowGroups[0].Columns[0].MetaData.DataPageOffset = 1 << 50 },
		"size":               func(m *format.FileMetaData) { m.RowGroups[0].Columns[2].MetaData.TotalCompressedSize = 1 << 50 },
	} {
		forge(t, p, d.IndexPath(), func(*index) {})
		data, err := os.ReadFile(d.IndexPath())
		if err != nil {
			t.Fatal(err)
		}
		rewriteFooter(t, d.IndexPath(), data, tamper)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = loadIndex(t.Context(), d.IndexPath(), src)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; err == nil || n > 32<<20 {
			t.Errorf("%s: %d bytes allocated, %v", name, n, err)
		}
	}
}

func setFacts(m *format.FileMetaData, from, to string) {
	for k := range m.KeyValueMetadata {
		if kv := &m.KeyValueMetadata[k]; kv.Key == factsKey {
			kv.Value = strings.Replace(kv.Value, from, to, 1)
		}
	}
}

// rewriteFooter changes a Parquet file's metadata and updates the checksum.
func rewriteFooter(t testing.TB, path string, data []byte, change func(*format.FileMetaData)) {
	t.Helper()
	offset, length, err := footer(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var m format.FileMetaData
	protocol := new(thrift.CompactProtocol)
	if err := thrift.Unmarshal(protocol, data[offset:offset+length], &m); err != nil {
		t.Fatal(err)
	}
	change(&m)
	text, err := thrift.Marshal(protocol, m)
	if err != nil {
		t.Fatal(err)
	}
	out := append(slices.Clone(data[:offset]), text...)
	out = append(out, byte(len(text)), byte(len(text)>>8), byte(len(text)>>16), byte(len(text)>>24))
	out = append(out, "PAR1"...)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.Write(out)
	if err := sealIndex(f); err != nil {
		t.Fatal(err)
	}
}

// TestIndexThatOthersCouldHaveWritten: such an index is not used, and the log says why and what
// to do.
func TestIndexThatOthersCouldHaveWritten(t *testing.T) {
	for name, c := range map[string]struct {
		change func(file string) error
		root   bool // needs root to try
		kept   bool // it is replaced by one that the user owns
	}{
		"file, group may write":      {func(f string) error { return os.Chmod(f, 0o660) }, false, true},
		"file, others may write":     {func(f string) error { return os.Chmod(f, 0o602) }, false, true},
		"file, a link":               {func(f string) error { return cmpErr(os.Rename(f, f+".x"), os.Symlink(f+".x", f)) }, false, true},
		"directory, group may write": {func(f string) error { return os.Chmod(filepath.Dir(f), 0o770) }, false, false},
		"directory, as /tmp":         {func(f string) error { return os.Chmod(filepath.Dir(f), 0o777|os.ModeSticky) }, false, false},
		"file of another":            {func(f string) error { return os.Chown(f, 12345, -1) }, true, true},
		"directory of another":       {func(f string) error { return os.Chown(filepath.Dir(f), 12345, -1) }, true, false},
	} {
		if c.root && os.Getuid() != 0 {
			continue
		}
		p := newPlace(t)
		p.images("a/1.jpg")
		p.settle()
		d := p.open("")
		if err := c.change(d.IndexPath()); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		p.probes()
		again := p.open("", func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		if p.probes() != 1 {
			t.Errorf("%s: the index was used", name)
		}
		if text := log.String(); !strings.Contains(text, "index") || !strings.Contains(text, "level=WARN") {
			t.Errorf("%s: the log says %q", name, text)
		}
		if kept := again.IndexPath() != ""; kept != c.kept || kept == (again.Report().IndexProblem != "") {
			t.Errorf("%s: kept %t, problem %q", name, kept, again.Report().IndexProblem)
		}
		if d := p.open(""); (d.Report().Reused == 1) != c.kept {
			t.Errorf("%s: afterwards %+v", name, d.Report())
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
