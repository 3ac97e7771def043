package dataset

import (
	"bytes"
	"context"
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
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/facts"
	"github.com/batchfs/batchfs/internal/testkit"
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

func TestRefreshByWhatChanged(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(p *place)
		rescan bool
		probes int
		check  func(d *Dataset) bool
	}{
		{"nothing", func(p *place) {}, false, 0, func(d *Dataset) bool { return d.Report.Reused == 6 }},
		{"nothing, rescan", func(p *place) {}, true, 0, func(d *Dataset) bool { return d.Report.Reused == 6 }},
		{"added first", func(p *place) { p.write("a/0.jpg", image("png", 1, 1, 1)) }, false, 1,
			func(d *Dataset) bool { return d.Len() == 7 && d.Format(0) == "png" && d.Format(1) == "jpeg" }},
		{"removed", func(p *place) { os.Remove(p.path("a/1.jpg")) }, false, 0,
			func(d *Dataset) bool { return d.Len() == 5 && d.Path(0) == "a/2.jpg" }},
		{"class added", func(p *place) { p.images("aa/1.jpg") }, false, 1,
			func(d *Dataset) bool { return d.Len() == 7 && len(d.Classes) == 3 && d.Label(6) == 2 }},
		{"class renamed", func(p *place) { os.Rename(p.path("a"), p.path("z")) }, false, 3,
			func(d *Dataset) bool { return d.Classes[1] == "z" && d.Path(5) == "z/3.jpg" }},
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
				equal(t, describe(bare), describe(d), "without index and refreshed")
			}
		})
	}
}

// TestRescanIsForTheNext: one rescan finds files that were rewritten in place, and later opens
// without Rescan know their new state, too.
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
		if r := d.Report; p.probes() != 1 || r.Scanned != 1 || r.Reused != 1 {
			t.Errorf("%q: rescanned: %+v", manifest, r)
		}
		d = p.open(manifest)
		if _, err := d.Read(1, nil, grow); err != nil || p.probes() != 0 {
			t.Errorf("%q: afterwards: %v, %+v", manifest, err, d.Report)
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

// TestManifestThatChanges: another size, or another time, is another manifest.
func TestManifestThatChanges(t *testing.T) {
	p := newPlace(t)
	open := func(text string, at time.Time) {
		t.Helper()
		p.write("m.csv", "path,height,width,format\n"+text+",1,2,jpeg\n")
		testkit.Must(t, os.Chtimes(p.path("m.csv"), at, at))
		equal(t, []string{text}, paths(p.open("m.csv")), "")
	}
	open("a.jpg", settled)
	open("b.jpg", settled.Add(1))
	open("ab.jpg", settled.Add(1))
}

// TestUnsettledTimesProveNothing: a directory, or a manifest, that was read just after it was
// modified may be modified again with the same timestamp.
func TestUnsettledTimesProveNothing(t *testing.T) {
	p := newPlace(t)
	p.images("a/1.jpg")
	p.settle()
	recent := time.Now().Add(time.Hour) // newer than the listing
	os.Chtimes(p.path("a"), time.Time{}, recent)
	p.open("")
	p.images("a/2.jpg")
	os.Chtimes(p.path("a"), time.Time{}, recent)
	if d := p.open(""); d.Len() != 2 {
		t.Error("a file was missed")
	}
	for _, path := range []string{"a/1.jpg", "a/2.jpg"} {
		p.write("m.csv", "path\n"+path+"\n")
		os.Chtimes(p.path("m.csv"), time.Time{}, recent)
		equal(t, []string{path}, paths(p.open("m.csv")), "a manifest")
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
		if got := p.open(c.manifest, none).ModTime; !got.Equal(want) {
			t.Errorf("%q modified: %v, want %v", c.name, got, want)
		}
	}
	// Times before 1970 are valid too.
	old := newPlace(t)
	old.images("1.jpg")
	long := time.Unix(-1000, 5)
	os.Chtimes(old.path("1.jpg"), long, long)
	os.Chtimes(old.root, long, long)
	if d := old.open("", none); !d.ModTime.Equal(long) || !d.Stat(0).Known() {
		t.Errorf("%v", d.ModTime)
	}
}

func TestDigestIsOfTheContent(t *testing.T) {
	make := func(change func(p *place)) string {
		p := newPlace(t)
		p.images("a/1.jpg", "b/2.jpg")
		change(p)
		return p.open("").Digest
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

// TestDamagedIndexIsMadeAnew: whatever is cut off, flipped or overwritten in the index, the dataset
// stays the same, and its index is repaired.
func TestDamagedIndexIsMadeAnew(t *testing.T) {
	p := newPlace(t)
	names, s3 := kinds(p)
	rounds := 60
	if testing.Short() {
		rounds = 18
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range names {
		d, err := p.tryOpen(name, s3)
		testkit.Must(t, err)
		want, path := describe(d), d.IndexPath
		good, err := os.ReadFile(path)
		testkit.Must(t, err)
		for round := range rounds {
			bad := bytes.Clone(good)
			switch round % 3 {
			case 0:
				bad[r.IntN(len(bad))] ^= 1 << r.IntN(8)
			case 1:
				bad = bad[:r.IntN(len(bad))]
			case 2:
				for range 20 {
					bad[r.IntN(len(bad))] = byte(r.Uint32())
				}
			}
			testkit.Must(t, os.WriteFile(path, bad, 0o600))
			d, err := p.tryOpen(name, s3)
			testkit.Must(t, err)
			if diff := cmp.Diff(want, describe(d)); diff != "" {
				t.Fatalf("%s, round %d:\n%s", name, round, diff)
			}
			if mended, _ := os.ReadFile(path); !bytes.Equal(mended, good) {
				t.Fatalf("%s, round %d: the index was not made anew", name, round)
			}
		}
	}
}

// TestRubbishBesideAnIndex: files named like parts and journals change nothing if they are invalid,
// or may belong to someone else.
func TestRubbishBesideAnIndex(t *testing.T) {
	p := newPlace(t)
	p.images("a/1.jpg", "b/2.jpg")
	p.settle()
	d := p.open("")
	want, base := describe(d), indexBase(d.IndexPath)
	good, err := os.ReadFile(d.IndexPath)
	testkit.Must(t, err)
	others := t.TempDir() + "/others"
	for k, make := range []func(path string) error{
		func(path string) error { return unix.Mkfifo(path, 0o600) },
		func(path string) error { return os.Mkdir(path, 0o700) },
		func(path string) error { return cmpErr(os.WriteFile(others, good, 0o600), os.Symlink(others, path)) },
		func(path string) error { return cmpErr(os.WriteFile(path, good, 0o600), os.Chmod(path, 0o666)) },
		func(path string) error { return os.WriteFile(path, nil, 0o600) },
		func(path string) error { return os.WriteFile(path, good[:len(good)/2], 0o600) },
	} {
		for _, name := range []string{PartPath(base, Share{k, 9}, factsExtension), base + factsExtension + journalMark + "1"} {
			testkit.Must(t, make(name))
		}
		p.write("a/1.jpg", image("jpeg", 10+k, 20, 1))
		equal(t, describe(p.open("", func(o *Options) { o.CacheDir = "" })), describe(p.open("", func(o *Options) { o.Rescan = true })), "%d", k)
		if left := journals(p.cache); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	}
	p.write("a/1.jpg", image("jpeg", 10, 20, 1))
	p.settle()
	equal(t, want, describe(p.open("", func(o *Options) { o.Rescan = true })), "")
}

// FuzzReadFacts bypasses the checksums: no content of any record may cause a crash, or impossible
// paths and problems. A record in the input is its kind, two bytes of length, and the payload.
func FuzzReadFacts(f *testing.F) {
	p := newPlace(f)
	p.images("a/1.jpg", "b/2.png")
	p.write("b/3.png", "rubbish")
	p.pack("x.tar", "", "a/1.jpg", "b/2.png")
	p.write("c/3.png", image("png", 10, 20, 1))
	p.pack("y.tar", "", "c/3.png")
	sources := map[bool]*source{}
	for packed, name := range map[bool]string{false: "", true: "*.tar"} {
		src, err := locate(context.Background(), p.path(name), &Options{})
		testkit.Must(f, err)
		sources[packed] = src
		data, err := os.ReadFile(p.open(name).IndexPath)
		testkit.Must(f, err)
		var seed []byte
		err = facts.Read(bytes.NewReader(data), int64(len(data)), func(kind byte, payload []byte, _ int64) error {
			seed = append(append(seed, kind, byte(len(payload)), byte(len(payload)>>8)), payload...)
			return nil
		})
		testkit.Must(f, err)
		f.Add(packed, seed)
	}
	f.Fuzz(func(t *testing.T, packed bool, data []byte) {
		var file bytes.Buffer
		w := facts.NewWriter(&file)
		for len(data) >= 3 {
			n := min(int(data[1])|int(data[2])<<8, len(data)-3)
			w.Put(data[0], data[3:3+n])
			data = data[3+n:]
		}
		w.Flush()
		x, _ := readFacts(t.Context(), &file, int64(file.Len()), sources[packed])
		if x == nil {
			return
		}
		if x.objects != nil {
			x.gather()
			names := newTable(0, 0)
			for k := range x.objects {
				x.objects[k].addTo(names, k)
			}
			if names.rows() != x.table.rows() {
				t.Fatalf("objects have %d rows of %d", names.rows(), x.table.rows())
			}
		}
		for i := range x.table.rows() {
			if place, _ := x.table.place(i); place != nil && !place.Within(x.table.objects[x.table.members[i].object].id.Size) {
				t.Fatalf("row %d is at %+v", i, place)
			}
		}
		if !x.listed {
			return
		}
		x.derive()
		for i := range x.table.rows() {
			path := x.table.path(i)
			if clean, leaves, err := cleanPath(path); err != nil || clean != path || leaves && !x.Outside {
				t.Fatalf("path %q", path)
			}
			if label := int(x.table.row[i].label); label < -1 || len(x.classes) > 0 && label >= len(x.classes) {
				t.Fatalf("label %d", label)
			}
			if len(problemOf(x.table, i)) > maxReason {
				t.Fatalf("problem %q", problemOf(x.table, i))
			}
		}
	})
}

// TestForeignIndexIsMadeAnew: an index of another version or dataset, or an inconsistent one, is
// not used.
func TestForeignIndexIsMadeAnew(t *testing.T) {
	p := newPlace(t)
	p.images("a/1.jpg")
	p.settle()
	d := p.open("")
	good, err := os.ReadFile(d.IndexPath)
	testkit.Must(t, err)
	for name, change := range map[string]func(text string) string{
		"version":         func(s string) string { return strings.Replace(s, `"version":"`, `"version":"0`, 1) },
		"dataset":         func(s string) string { return strings.Replace(s, `"dataset":"L`, `"dataset":"M`, 1) },
		"rows":            func(s string) string { return strings.Replace(s, `"rows":1,"digest"`, `"rows":2,"digest"`, 1) },
		"classes":         func(s string) string { return strings.Replace(s, `"YQ=="`, `"Y"`, 1) },
		"dirs":            func(s string) string { return strings.Replace(s, `"path":""`, `"path":"x"`, 1) },
		"no directories":  func(s string) string { return s[:strings.Index(s+`"directories"`, `"directories"`)] },
		"not the listing": func(s string) string { return strings.TrimPrefix(s, "{") },
	} {
		var file bytes.Buffer
		w := facts.NewWriter(&file)
		changed := false
		err := facts.Read(bytes.NewReader(good), int64(len(good)), func(kind byte, payload []byte, _ int64) error {
			text := string(payload)
			if kind == aboutRecord || kind == listingRecord {
				text = change(text)
			}
			changed = changed || text != string(payload)
			w.Put(kind, []byte(text))
			return nil
		})
		w.Flush()
		if err != nil || !changed {
			t.Fatalf("%s: nothing was changed: %v", name, err)
		}
		testkit.Must(t, os.WriteFile(d.IndexPath, file.Bytes(), 0o600))
		if x, err := loadFacts(t.Context(), d.IndexPath, d.source); err == nil && x.listed && (&opening{ctx: t.Context(), src: d.source}).current(x) {
			t.Errorf("%s: taken for current", name)
		}
		if got := p.open(""); got.Digest != d.Digest {
			t.Errorf("%s: not made anew", name)
		}
		if again, err := os.ReadFile(d.IndexPath); err != nil || !bytes.Equal(again, good) {
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
		if d.IndexPath != "" || !strings.Contains(d.Report.IndexProblem, "inside the dataset") {
			t.Errorf("%q: index %q, problem %q", cache, d.IndexPath, d.Report.IndexProblem)
		}
		if _, err := os.Stat(p.path(".cache")); err == nil {
			t.Errorf("%q: made in the dataset", cache)
		}
		p.refused(nil, "inside the dataset", "", at(dir))
	}
	d := p.open("", func(o *Options) { o.CacheDir = p.root + "-cache" })
	if filepath.Dir(d.IndexPath) != p.root+"-cache" {
		t.Errorf("beside the dataset: index %q, problem %q", d.IndexPath, d.Report.IndexProblem)
	}
	p.write("../file", "")
	if d := p.open("", func(o *Options) { o.CacheDir = p.path("../file") }); d.IndexPath != "" || d.Report.IndexProblem == "" || d.Len() != 1 {
		t.Errorf("in a file: index %q, report %+v", d.IndexPath, d.Report)
	}
	// The dataset of a manifest is what it lists, not the directory that contains it.
	d = p.open("m.csv", func(o *Options) { o.CacheDir = p.path("cache") })
	if d.IndexPath == "" {
		t.Errorf("of a manifest: %q", d.Report.IndexProblem)
	}
}

func TestIndexLeavesNothingBehind(t *testing.T) {
	p := newPlace(t)
	p.images("1.jpg")
	d := p.open("")
	const tempMark = ".tmp-"
	stale, fresh, other := d.IndexPath+tempMark+"1", d.IndexPath+tempMark+"2", p.cache+"/other"+tempMark
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
	equal(t, []string{d.IndexPath, fresh, other}, names, "")
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
				equal(t, want, describe(d), "")
				d.Close()
			}
		})
	}
	all.Wait()
	if entries, _ := os.ReadDir(p.cache); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

// TestParquet: all facts can be queried with their proper types, and as bytes where a name is not
// text.
func TestParquet(t *testing.T) {
	p := newPlace(t)
	p.write("cat/1.jpg", image("jpeg", 10, 20, 6))
	p.write("dog/2.jpg", "rubbish")
	p.pack("x.tar", "", "cat/1.jpg")
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
		Object      string `parquet:"object"`
		Offset      int64  `parquet:"offset"`
		Length      int64  `parquet:"length"`
	}
	read := func(d *Dataset) []line {
		t.Helper()
		var file bytes.Buffer
		err := WriteParquet(t.Context(), &file, d)
		testkit.Must(t, err)
		lines, err := parquet.Read[line](bytes.NewReader(file.Bytes()), int64(file.Len()))
		testkit.Must(t, err)
		return lines
	}
	d := p.open("")
	want := []line{
		{"cat/1.jpg", 0, "cat", 20, 10, 6, "jpeg", d.Stat(0).Size, d.Stat(0).ModTime, "", "", 0, 0},
		{"dog/2.jpg", 1, "dog", 0, 0, 0, "", 7, d.Stat(1).ModTime, "no image", "", 0, 0},
	}
	equal(t, want, read(d), "")
	d = p.open("x.tar")
	n := d.Stat(0).Size
	equal(t, []line{{"cat/1.jpg", 0, "cat", 20, 10, 6, "jpeg", n, d.Stat(0).ModTime, "", "x.tar", 512, n}}, read(d), "")
	p.write("\xff/1.jpg", image("jpeg", 10, 20, 6))
	if lines := read(p.open("")); len(lines) != 3 || lines[2].Path != "\xff/1.jpg" || lines[2].Class != "\xff" {
		t.Errorf("%+v", lines)
	}
}
