package dataset

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
)

// varied makes a dataset with everything that an index has to store.
func varied(p *place) {
	for k, name := range oddNames {
		name = strings.ReplaceAll(name, "/", "+")
		p.write(fmt.Sprintf("%s/%s.jpg", name, name), image("png", k+1, 2*k+3, k%9))
	}
	p.write("a/rubbish.bmp", "rubbish")
	p.write("a/rubbish2.bmp", "rubbish")
	p.write("a/ignored.gif", "")
	p.link("nowhere", "b/broken.webp")
	p.mkdir("empty class")
	p.settle()
}

// TestReopenedIsScanned: for every kind of dataset, opening it from the index gives the same as
// scanning it.
func TestReopenedIsScanned(t *testing.T) {
	for _, manifest := range []string{"", "m.csv"} {
		p := newPlace(t)
		varied(p)
		p.write("m.csv", "path,label,height,width,format\n\"a\nb/a\nb.jpg\",x,,,\né/é.jpg,y,5,6,png\n\xff/\xff.jpg,\xff,,,\ngone,,,,\n")
		p.settle()
		bare := p.open(manifest, func(o *Options) { o.CacheDir = "" })
		if bare.IndexPath() != "" || bare.Report().IndexProblem != "" {
			t.Errorf("an index that nobody wanted: %q, %q", bare.IndexPath(), bare.Report().IndexProblem)
		}
		scanned := p.open(manifest)
		p.probes()
		reopened := p.open(manifest)
		if n := p.probes(); n != 0 {
			t.Errorf("%q: %d headers read again", manifest, n)
		}
		rescanned := p.open(manifest, func(o *Options) { o.Rescan = true })
		if n := p.probes(); n != 0 {
			t.Errorf("%q: %d headers read again by Rescan", manifest, n)
		}
		for name, d := range map[string]*Dataset{"scanned": scanned, "reopened": reopened, "rescanned": rescanned} {
			if diff := cmp.Diff(describe(bare), describe(d)); diff != "" {
				t.Errorf("%q: without index and %s (- +):\n%s", manifest, name, diff)
			}
		}
		if r := reopened.Report(); r.Scanned+r.Reused != reopened.Len() || r.Scanned > 1 {
			t.Errorf("%q: report %+v", manifest, r)
		}
		if scanned.MemoryBytes() < int64(40*scanned.Len()) {
			t.Errorf("%q: %d bytes of memory for %d rows", manifest, scanned.MemoryBytes(), scanned.Len())
		}
	}
}

func TestRefreshByWhatChanged(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(p *place)
		rescan bool
		probes int
		check  func(d *Dataset) bool
	}{
		{"nothing", func(p *place) {}, false, 0, func(d *Dataset) bool { return d.Report().Reused == 6 }},
		{"nothing, rescan", func(p *place) {}, true, 0, func(d *Dataset) bool { return d.Report().Reused == 6 }},
		{"added first", func(p *place) { p.write("a/0.jpg", image("png", 1, 1, 1)) }, false, 1,
			func(d *Dataset) bool { return d.Len() == 7 && d.Format(0) == "png" && d.Format(1) == "jpeg" }},
		{"removed", func(p *place) { os.Remove(p.path("a/1.jpg")) }, false, 0,
			func(d *Dataset) bool { return d.Len() == 5 && d.Path(0) == "a/2.jpg" }},
		{"class added", func(p *place) { p.images("aa/1.jpg") }, false, 1,
			func(d *Dataset) bool { return d.Len() == 7 && len(d.Classes()) == 3 && d.Label(6) == 2 }},
		{"class renamed", func(p *place) { os.Rename(p.path("a"), p.path("z")) }, false, 3,
			func(d *Dataset) bool { return d.Classes()[1] == "z" && d.Path(5) == "z/3.jpg" }},
		{"files swapped", func(p *place) {
			os.Rename(p.path("a/1.jpg"), p.path("x"))
			os.Rename(p.path("b/1.png"), p.path("a/1.jpg"))
			os.Rename(p.path("x"), p.path("b/1.png"))
		}, false, 2, func(d *Dataset) bool { return d.Format(0) == "png" }},
		{"changed in place", func(p *place) { p.write("a/1.jpg", image("webp", 7, 8, 1)) }, false, 0,
			func(d *Dataset) bool { return d.Format(0) == "jpeg" }},
		{"changed in place, rescan", func(p *place) { p.write("a/1.jpg", image("webp", 7, 8, 1)) }, true, 1,
			func(d *Dataset) bool { return d.Format(0) == "webp" }},
		{"rubbish stays rubbish", func(p *place) { p.write("b/readme", "") }, false, 0,
			func(d *Dataset) bool { return d.Problem(5) == "no image" }},
		{"rubbish mended", func(p *place) { p.write("b/3.png", image("png", 2, 2, 1)) }, true, 1,
			func(d *Dataset) bool { return d.Problem(5) == "" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			p.images("a/1.jpg", "a/2.jpg", "a/3.jpg")
			p.write("b/1.png", image("png", 1000, 2000, 1))
			p.write("b/2.png", image("png", 10, 300, 1))
			p.write("b/3.png", "rubbish")
			p.settle()
			p.open("")
			p.probes()
			c.change(p)
			d := p.open("", func(o *Options) { o.Rescan = c.rescan })
			if n := p.probes(); n != c.probes || !c.check(d) {
				t.Errorf("%d headers read, want %d; %v", n, c.probes, describe(d))
			}
			bare := p.open("", func(o *Options) { o.CacheDir = "" })
			if c.name != "changed in place" {
				if diff := cmp.Diff(describe(bare), describe(d)); diff != "" {
					t.Errorf("without index and refreshed (- +):\n%s", diff)
				}
			}
		})
	}
}

// TestRescanIsForTheNext: one rescan finds files that were rewritten in place, and later opens
// without Rescan know them too.
func TestRescanIsForTheNext(t *testing.T) {
	for _, manifest := range []string{"", "m.csv"} {
		p := newPlace(t)
		p.images("1.jpg", "2.jpg")
		p.write("m.csv", "path\n1.jpg\n2.jpg\n")
		p.settle()
		p.open(manifest)
		p.write("2.jpg", image("jpeg", 10, 20, 1)+"mended")
		d := p.open(manifest)
		if _, err := d.Read(1, nil, grow); !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "batchfs index") {
			t.Errorf("%q: not looked at, it reads as %v", manifest, err)
		}
		p.probes()
		d = p.open(manifest, func(o *Options) { o.Rescan = true })
		if r := d.Report(); p.probes() != 1 || r.Scanned != 1 || r.Reused != 1 {
			t.Errorf("%q: rescanned: %+v", manifest, r)
		}
		d = p.open(manifest)
		if _, err := d.Read(1, nil, grow); err != nil || p.probes() != 0 {
			t.Errorf("%q: afterwards: %v, %+v", manifest, err, d.Report())
		}
	}
}

func TestRefreshOfAManifest(t *testing.T) {
	p := newPlace(t)
	p.images("1.jpg", "2.jpg", "3.jpg")
	p.write("m.csv", "path,label,height,width,format\n1.jpg,0,,,\n2.jpg,1,9,9,png\n")
	p.settle()
	p.open("m.csv")
	if n := p.probes(); n != 1 {
		t.Errorf("%d headers read at first", n)
	}
	p.write("m.csv", "path,label,height,width,format\n3.jpg,0,,,\n2.jpg,1,,,\n1.jpg,5,,,\n1.jpg,6,,,\n")
	d := p.open("m.csv")
	if n := p.probes(); n != 2 || d.Format(1) != "jpeg" || d.Label(2) != 5 || d.Label(3) != 6 {
		t.Errorf("%d headers read; %v", n, describe(d))
	}
}

// TestUnsettledTimesProveNothing: a directory listed just after it was modified may be modified
// again with the same timestamp.
func TestUnsettledTimesProveNothing(t *testing.T) {
	p := newPlace(t)
	p.images("a/1.jpg")
	p.settle()
	recent := time.Now().Add(time.Hour) // newer than any time of listing it
	os.Chtimes(p.path("a"), time.Time{}, recent)
	p.open("")
	p.images("a/2.jpg")
	os.Chtimes(p.path("a"), time.Time{}, recent)
	if d := p.open(""); d.Len() != 2 {
		t.Error("a file was missed")
	}

	now := time.Unix(1_700_000_000, 500_000_000)
	for _, c := range []struct {
		ago       time.Duration
		unsettled bool
	}{
		{-time.Hour, true}, {0, true}, {10 * time.Millisecond, true}, {50 * time.Millisecond, false},
		{500 * time.Millisecond, true}, {1500 * time.Millisecond, true}, {2500 * time.Millisecond, false},
	} {
		mtime := now.Add(-c.ago)
		s := newStamp(mtime, now)
		if s.Unsettled != c.unsettled || s.proves(mtime) == c.unsettled || s.proves(mtime.Add(1)) {
			t.Errorf("modified %v ago: %+v", c.ago, s)
		}
	}
}

func TestModTimeIsTheNewest(t *testing.T) {
	p := newPlace(t)
	p.images("a/1.jpg", "a/2.jpg")
	p.write("m.csv", "path\na/1.jpg\n")
	p.settle()
	at := func(name string, ago time.Duration) time.Time {
		when := time.Now().Add(-ago).Truncate(time.Second).Add(7)
		os.Chtimes(p.path(name), time.Time{}, when)
		return when
	}
	none := func(o *Options) { o.CacheDir = "" }
	for _, c := range []struct {
		name, manifest string
		ago            time.Duration
	}{{"a/2.jpg", "", 50 * time.Minute}, {"a", "", 40 * time.Minute}, {"", "", 30 * time.Minute},
		{"a/1.jpg", "m.csv", 20 * time.Minute}, {"m.csv", "m.csv", 10 * time.Minute}} {
		want := at(c.name, c.ago)
		if got := p.open(c.manifest, none).ModTime(); !got.Equal(want) {
			t.Errorf("%q modified: %v, want %v", c.name, got, want)
		}
	}
	// Times before 1970 are valid too.
	old := newPlace(t)
	old.images("1.jpg")
	long := time.Unix(-1000, 5)
	os.Chtimes(old.path("1.jpg"), long, long)
	os.Chtimes(old.root, long, long)
	if d := old.open("", none); !d.ModTime().Equal(long) || !d.Stat(0).Known() {
		t.Errorf("%v", d.ModTime())
	}
}

func TestDigestIsOfTheContent(t *testing.T) {
	make := func(change func(p *place)) string {
		p := newPlace(t)
		p.images("a/1.jpg", "b/2.jpg")
		change(p)
		return p.open("").Digest()
	}
	plain := make(func(*place) {})
	if again := make(func(p *place) { p.settle() }); again != plain {
		t.Error("a copy elsewhere, with other times, has another digest")
	}
	for name, change := range map[string]func(p *place){
		"another path":        func(p *place) { os.Rename(p.path("a/1.jpg"), p.path("a/3.jpg")) },
		"another class":       func(p *place) { os.Rename(p.path("b"), p.path("c")) },
		"an empty class":      func(p *place) { p.mkdir("c") },
		"another size":        func(p *place) { p.write("a/1.jpg", image("jpeg", 10, 20, 1)+"x") },
		"another height":      func(p *place) { p.write("a/1.jpg", image("jpeg", 11, 20, 1)) },
		"another orientation": func(p *place) { p.write("a/1.jpg", image("jpeg", 10, 20, 2)) },
		"another format":      func(p *place) { p.write("a/1.jpg", image("webp", 10, 20, 1)) },
		"one more":            func(p *place) { p.images("b/3.jpg") },
	} {
		if make(change) == plain {
			t.Errorf("%s: the same digest", name)
		}
	}
}

func TestDamagedIndexIsMadeAnew(t *testing.T) {
	p := newPlace(t)
	varied(p)
	d := p.open("")
	want, path := describe(d), d.IndexPath()
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 120 {
		bad := bytes.Clone(good)
		switch round % 4 {
		case 0:
			bad[r.IntN(len(bad))] ^= 1 << r.IntN(8)
		case 1:
			bad = bad[:r.IntN(len(bad))]
		case 2: // most of what could be trusted wrongly is in the footer
			bad[len(bad)-1-r.IntN(min(len(bad), 3000))] ^= 1 << r.IntN(8)
		case 3:
			for range 20 {
				bad[r.IntN(len(bad))] = byte(r.Uint32())
			}
		}
		if bytes.Equal(bad, good) {
			continue
		}
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		p.probes()
		d := p.open("")
		if diff := cmp.Diff(want, describe(d)); diff != "" {
			t.Fatalf("round %d:\n%s", round, diff)
		}
		if p.probes() == 0 {
			t.Fatalf("round %d: a damaged index was believed", round)
		}
		if mended, _ := os.ReadFile(path); len(mended) != len(good) {
			t.Fatalf("round %d: the index was not made anew", round)
		}
	}
}

// FuzzReadIndex bypasses the checksum: no content may cause a crash.
func FuzzReadIndex(f *testing.F) {
	p := newPlace(f)
	p.images("a/1.jpg", "b/2.png")
	p.write("b/3.png", "rubbish")
	good, err := os.ReadFile(p.open("").IndexPath())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	for _, path := range []string{"../x.jpg", "/x.jpg", "a/./x.jpg"} {
		at := filepath.Join(f.TempDir(), "index")
		forge(f, p, at, func(x *index) { x.table.appendRow(path, 0) })
		data, err := os.ReadFile(at)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	src, err := locate(context.Background(), p.root, &Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		file.Write(data)
		x, err := readIndex(t.Context(), file, int64(len(data)), src)
		if err != nil {
			return
		}
		for i := range x.table.rows() {
			path := x.table.path(i)
			if clean, outside, err := cleanPath(path); err != nil || clean != path || outside && !x.Outside {
				t.Fatalf("path %q", path)
			}
			if len(problemOf(x.table, i)) > maxReason {
				t.Fatalf("problem %q", problemOf(x.table, i))
			}
		}
	})
}

func TestForeignIndexIsMadeAnew(t *testing.T) {
	p := newPlace(t)
	p.images("a/1.jpg")
	p.settle()
	d := p.open("")
	src, err := locate(t.Context(), p.root, &Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*facts, map[string]string){
		"version":  func(x *facts, _ map[string]string) { x.Version = "0" },
		"dataset":  func(x *facts, _ map[string]string) { x.Source = []byte("/elsewhere") },
		"no facts": func(_ *facts, m map[string]string) { m[factsKey] = "" },
		"rows":     func(x *facts, _ map[string]string) { x.Rows = 2 },
		"classes":  func(_ *facts, m map[string]string) { m[factsKey] = strings.Replace(m[factsKey], `"YQ=="`, `"Y"`, 1) },
		"dirs": func(_ *facts, m map[string]string) {
			m[factsKey] = strings.Replace(m[factsKey], `"path":""`, `"path":"x"`, 1)
		},
		"a manifest, or no directories": func(x *facts, _ map[string]string) { x.Dirs = nil },
	} {
		x, err := loadIndex(t.Context(), d.IndexPath(), src)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(d.IndexPath())
		if err != nil {
			t.Fatal(err)
		}
		before, _ := json.Marshal(x.facts)
		m := map[string]string{checksumKey: checksumZero}
		row := x.row(0)
		for range 2 { // what is not in the facts is changed in their text
			change(&x.facts, m)
			text, _ := json.Marshal(x.facts)
			m[factsKey] = string(text)
		}
		change(&x.facts, m)
		if m[factsKey] == string(before) {
			t.Fatalf("%s: nothing was changed in %s", name, before)
		}
		w := parquet.NewGenericWriter[indexRow](f, &parquet.WriterConfig{KeyValueMetadata: m})
		w.Write([]indexRow{row})
		w.Close()
		if err := sealIndex(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if again, err := loadIndex(t.Context(), d.IndexPath(), src); err == nil && (&opening{ctx: t.Context(), src: src}).current(again) {
			t.Errorf("%s: taken for current", name)
		}
		if got := p.open(""); got.Digest() != d.Digest() {
			t.Errorf("%s: not made anew", name)
		}
		if x, err := loadIndex(t.Context(), d.IndexPath(), src); err != nil || !(&opening{ctx: t.Context(), src: src}).current(x) {
			t.Errorf("%s: not replaced: %v", name, err)
		}
	}
}

func TestIndexIsNeverInsideTheDataset(t *testing.T) {
	p := newPlace(t)
	p.images("a/1.jpg")
	p.write("m.csv", "path\na/1.jpg\n")
	p.link(p.root, "../link")
	for _, cache := range []string{"", ".cache", "a/x/y", "../data/b", "../link/a/z"} {
		dir := p.root + "/" + cache
		d := p.open("", func(o *Options) { o.CacheDir = dir })
		if d.IndexPath() != "" || !strings.Contains(d.Report().IndexProblem, "inside the dataset") {
			t.Errorf("%q: index %q, problem %q", cache, d.IndexPath(), d.Report().IndexProblem)
		}
		if _, err := os.Stat(p.path(".cache")); err == nil {
			t.Errorf("%q: made in the dataset", cache)
		}
	}
	d := p.open("", func(o *Options) { o.CacheDir = p.root + "-cache" })
	if filepath.Dir(d.IndexPath()) != p.root+"-cache" {
		t.Errorf("beside the dataset: index %q, problem %q", d.IndexPath(), d.Report().IndexProblem)
	}
	// A manifest's dataset is what it lists, not the directory that contains it.
	d = p.open("m.csv", func(o *Options) { o.CacheDir = p.path("cache") })
	if d.IndexPath() == "" {
		t.Errorf("of a manifest: %q", d.Report().IndexProblem)
	}
}

func TestIndexThatCannotBeWritten(t *testing.T) {
	p := newPlace(t)
	p.images("1.jpg")
	p.write("../cache", "a file")
	if d := p.open(""); d.IndexPath() != "" || d.Report().IndexProblem == "" || d.Len() != 1 {
		t.Errorf("index %q, report %+v", d.IndexPath(), d.Report())
	}
}

func TestIndexLeavesNothingBehind(t *testing.T) {
	p := newPlace(t)
	p.images("1.jpg")
	d := p.open("")
	const tempMark = ".tmp-"
	stale, fresh, other := d.IndexPath()+tempMark+"1", d.IndexPath()+tempMark+"2", p.cache+"/other"+tempMark
	for _, name := range []string{stale, fresh, other} {
		os.WriteFile(name, nil, 0o600)
	}
	long := time.Now().Add(-48 * time.Hour)
	os.Chtimes(stale, long, long)
	os.Chtimes(other, long, long)
	p.open("", func(o *Options) { o.Rescan = true })
	var names []string
	entries, _ := os.ReadDir(p.cache)
	for _, e := range entries {
		names = append(names, filepath.Join(p.cache, e.Name()))
	}
	if diff := cmp.Diff([]string{d.IndexPath(), fresh, other}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestConcurrentOpens(t *testing.T) {
	p := newPlace(t)
	varied(p)
	want := describe(p.open("", func(o *Options) { o.CacheDir = "" }))
	var all sync.WaitGroup
	for k := range 8 {
		all.Go(func() {
			for range 3 {
				o := p.options()
				o.Rescan = k%3 == 0
				d, err := Open(context.Background(), p.root, o)
				if err != nil {
					t.Error(err)
					return
				}
				if diff := cmp.Diff(want, describe(d)); diff != "" {
					t.Error(diff)
				}
				d.Close()
			}
		})
	}
	all.Wait()
	if entries, _ := os.ReadDir(p.cache); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestIndexCanBeQueried(t *testing.T) {
	p := newPlace(t)
	p.write("cat/1.jpg", image("jpeg", 10, 20, 6))
	p.write("dog/2.jpg", "rubbish")
	d := p.open("")
	type line struct {
		Path        string `parquet:"path"`
		Label       int32  `parquet:"label"`
		Class       string `parquet:"class"`
		Height      int32  `parquet:"height"`
		Width       int32  `parquet:"width"`
		Orientation int32  `parquet:"orientation"`
		Format      string `parquet:"format"`
		Size        int64  `parquet:"size"`
		ModTime     int64  `parquet:"mtime_ns"`
		Problem     string `parquet:"problem"`
	}
	got, err := parquet.ReadFile[line](d.IndexPath())
	if err != nil {
		t.Fatal(err)
	}
	want := []line{
		{"cat/1.jpg", 0, "cat", 20, 10, 6, "jpeg", d.Stat(0).Size, d.Stat(0).ModTime, ""},
		{"dog/2.jpg", 1, "dog", 0, 0, 0, "", 7, d.Stat(1).ModTime, "no image"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestChecksumIsOfTheWholeFile(t *testing.T) {
	p := newPlace(t)
	p.images("1.jpg")
	path := p.open("").IndexPath()
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := verifyIndex(bytes.NewReader(good), int64(len(good))); err != nil {
		t.Fatal(err)
	}
	for k := range good {
		bad := bytes.Clone(good)
		bad[k] ^= 1
		if err := verifyIndex(bytes.NewReader(bad), int64(len(bad))); err == nil {
			t.Fatalf("byte %d changed unnoticed", k)
		}
		if err := verifyIndex(bytes.NewReader(good[:k]), int64(k)); err == nil {
			t.Fatalf("cut at %d unnoticed", k)
		}
	}
	if err := verifyIndex(bytes.NewReader(nil), 0); !errors.Is(err, errFooter) {
		t.Error(err)
	}
}
