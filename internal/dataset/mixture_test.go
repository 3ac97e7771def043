package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfs/batchfs/internal/fakestore"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/testkit"
)

// mixed makes datasets of several kinds with class folders a, b, b-1 and c, or with labels of these
// names, and returns their paths.
func (p *place) mixed() []string {
	files := p.several()
	p.mkdir("s")
	p.pack("s/0.tar", "", files[:3]...)
	p.pack("s/1.tar", "", files[3:5]...)
	for k, class := range []string{"c", "a"} {
		p.write(fmt.Sprintf("w/%d.jpg", k), image("jpeg", 30+k, 5, 6))
		p.write(fmt.Sprintf("w/%d.cls", k), class)
	}
	p.pack("web.tar", "", "w/0.jpg", "w/0.cls", "w/1.jpg", "w/1.cls")
	p.write("m/list.csv", "path,label\n../d/b/1.jpg,b\n2.png,z\n")
	p.write("m/2.png", image("png", 8, 9, 1))
	p.images("flat/2.jpg", "flat/1.jpg", "own/x/3.jpg", "own/a/4.jpg")
	p.write("own/metadata.csv", "file_name,label\nx/3.jpg,c\na/4.jpg,c\n")
	p.settle()
	return []string{"d", "s/*.tar", "web.tar", "m/list.csv", "flat", "own", "s/0.tar/b"}
}

// sampleOf is everything about a sample, except for where it is and the numbers of classes.
func sampleOf(t *testing.T, d *Dataset, i int) string {
	t.Helper()
	data, err := d.Read(i, nil, grow)
	testkit.Must(t, err)
	if id, err := d.Check(i); err != nil || !d.Same(i, id) {
		t.Errorf("%s: %v, %v", d.Path(i), id, err)
	}
	class := ""
	if d.Label(i) >= 0 {
		class = d.Classes[d.Label(i)]
	}
	h, w := d.Size(i, false)
	return fmt.Sprintf("%s %s %dx%d\n%s", class, d.Format(i), h, w, data)
}

// TestMixture: a list of datasets of all kinds has the samples of each, in the order of the list,
// as if each were alone.
func TestMixture(t *testing.T) {
	p := newPlace(t)
	names := p.mixed()
	_, how := p.serve()
	outside := func(o *Options) { o.AllowOutside = true }
	var here, there, both []string
	for k, name := range append(names, "d") { // d is there twice
		here = append(here, name)
		if name != "m/list.csv" { // that manifest leaves its folder
			there = append(there, "s3://data/"+name)
			both = append(both, []string{"s3://data/" + name, p.path(name)}[k%2])
		}
	}
	for list, lines := range map[string][]string{"here": here, "there": there, "both": both} {
		var want []string
		for _, line := range lines {
			name := strings.TrimPrefix(strings.TrimPrefix(line, "s3://data/"), p.path("")+"/")
			alone := p.open(name, outside)
			for i := range alone.Len() {
				want = append(want, sampleOf(t, alone, i))
			}
		}
		p.write(list+".txt", "# "+list+"\n\n"+strings.Join(lines, "\n"))
		p.probes()
		d := p.open(list+".txt", how, outside)
		if list == "here" && p.probes() != 0 {
			t.Error("headers of datasets with an index were read again")
		}
		var got []string
		for i := range d.Len() {
			got = append(got, sampleOf(t, d, i))
		}
		equal(t, want, got, "%s", list)
		classes := []string{"a", "b", "b-1", "c", "z"}
		if list != "here" {
			classes = classes[:4]
		}
		if !slices.Equal(d.Classes, classes) || !d.Ordered || !d.Packed || d.Remote != (list != "here") || d.Blocks() != nil {
			t.Errorf("%s: %q, ordered %v, packed %v, remote %v", list, d.Classes, d.Ordered, d.Packed, d.Remote)
		}
		p.probes()
		again := p.open(list+".txt", how, outside)
		if diff := cmp.Diff(describe(d), describe(again)); diff != "" || again.Report.Scanned != 0 || p.probes() != 0 {
			t.Errorf("%s again (-first +second): %d headers were read\n%s", list, again.Report.Scanned, diff)
		}
		if n := d.Report; n.Samples != len(want) || n.Scanned+n.Reused != len(want) {
			t.Errorf("%s: %+v", list, n)
		}
	}
}

// TestPathsInAMixture: paths say where samples are, below the folder common to all datasets, if
// there is one.
func TestPathsInAMixture(t *testing.T) {
	p := newPlace(t)
	p.images("d/x/1.jpg", "d/y/d/2.jpg", "d/y/d/1.jpg")
	p.pack("d/y.tar", "", "d/x/1.jpg")
	_, how := p.serve()
	for list, want := range map[string][]string{
		"d/y\nd/x\nd/y.tar":                      {"y/d/1.jpg", "y/d/2.jpg", "x/1.jpg", "y.tar/x/1.jpg"},
		"d/y/d\nd/y":                             {"d/1.jpg", "d/2.jpg", "d/1.jpg", "d/2.jpg"},
		"s3://data/d/x\ns3://data/d/y.tar":       {"x/1.jpg", "y.tar/x/1.jpg"},
		"s3://data/d/x\n" + p.path("d/y.tar"):    {"s3://data/d/x/1.jpg", p.path("d/y.tar/x/1.jpg")},
		"s3://data/d/x\ns3://data/../data/d/x/.": nil,
	} {
		p.write("list.txt", list)
		d, err := p.tryOpen("list.txt", how)
		if want == nil {
			if err == nil {
				t.Errorf("%q: %q", list, paths(d))
			}
			continue
		}
		if err != nil || !slices.Equal(paths(d), want) {
			t.Errorf("%q: %q, %v", list, paths(d), err)
		}
		for i := range d.Len() { // the path leads to the right file, although names repeat
			sampleOf(t, d, i)
			if file := filepath.Join(d.Root, d.Path(i)); !d.Remote && !d.table.isMember(i) {
				if _, err := os.Stat(file); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// TestLabelsOfAMixture: classes with the same name are the same class. A dataset that has all
// classes determines their numbers.
func TestLabelsOfAMixture(t *testing.T) {
	p := newPlace(t)
	p.images("two/b/1.jpg", "two/d/2.jpg", "three/a/1.jpg", "three/b/1.jpg", "three/d/1.jpg", "flat/1.jpg")
	p.write("numbers.csv", "path,label\nflat/1.jpg,2\n")
	p.write("classes", "d\nb\na\n")
	for list, want := range map[string]struct {
		classes []string
		labels  []int
	}{
		"two\nthree\nflat":       {[]string{"a", "b", "d"}, []int{1, 2, 0, 1, 2, -1}},
		"flat\ntwo":              {[]string{"b", "d"}, []int{-1, 0, 1}},
		"numbers.csv\nflat":      {nil, []int{2, -1}},
		"flat\nnumbers.csv\ntwo": {[]string{"d", "b", "a"}, []int{-1, 2, 1, 0}},
		"two\nnumbers.csv":       {[]string{"d", "b", "a"}, []int{1, 0, 2}},
		"numbers.csv\nthree":     {[]string{"d", "b", "a"}, []int{2, 2, 1, 0}},
	} {
		p.write("list.txt", list)
		d, err := p.tryOpen("list.txt")
		if len(want.classes) > 0 && want.classes[0] == "d" {
			if !errors.Is(err, ErrLabels) || !strings.Contains(err.Error(), "line ") {
				t.Errorf("%q: %v", list, err)
			}
			d, err = p.tryOpen("list.txt", func(o *Options) { o.Classes = want.classes })
		}
		if err != nil {
			t.Fatalf("%q: %v", list, err)
		}
		if !slices.Equal(d.Classes, want.classes) || !slices.Equal(labels(d), want.labels) {
			t.Errorf("%q: %d of %q", list, labels(d), d.Classes)
		}
	}
	unsorted := &index{classes: []string{"d", "a"}, table: newTable(0, 0)}
	part := &index{classes: []string{"a"}, table: newTable(0, 0)}
	for _, row := range []*index{unsorted, part} {
		testkit.Must(t, row.table.appendRow("x", 0))
	}
	classes, err := unite(nil, []*index{part, unsorted})
	if err != nil || !slices.Equal(classes, unsorted.classes) || part.table.row[0].label != 1 || unsorted.table.row[0].label != 0 {
		t.Errorf("%q, %v", classes, err)
	}
}

// TestPartsOfAMixture: parts are joined like those of a single dataset, each has some work, and the
// error names missing parts.
func TestPartsOfAMixture(t *testing.T) {
	p := newPlace(t)
	p.write("all.txt", strings.Join(p.mixed()[:3], "\n")+"\nflat\nweb.tar")
	want := p.open("all.txt", at(t.TempDir()))
	for _, n := range []int{1, 2, 5} {
		dir, most := t.TempDir(), 0
		for k := range n {
			if k > 0 {
				_, err := p.tryOpen("all.txt", at(dir), merge)
				missing, ok := errors.AsType[*PartsError](err)
				if !ok || !slices.Equal(missing.Parts, shares(k, n)) {
					t.Errorf("without part %d of %d: %v", k, n, err)
				}
			}
			most = max(most, p.open("all.txt", at(dir), part(k, n)).Len())
		}
		got := p.open("all.txt", at(dir), merge)
		if diff := cmp.Diff(describe(want), describe(got)); diff != "" || n > 1 && most > want.Len()*2/3 {
			t.Errorf("%d parts, the largest of %d (-one +joined):\n%s", n, most, diff)
		}
	}
	if err := want.KeepPart(Share{0, 1}, "test", 7); err != nil {
		t.Error(err)
	}
	var kept string
	if err := want.EachPart("test", func(found []byte) error { kept = string(found); return nil }); err != nil || kept != "7" {
		t.Errorf("%q, %v", kept, err)
	}
}

// shares returns the shares of n from first on.
func shares(first, n int) (all []Share) {
	for k := first; k < n; k++ {
		all = append(all, Share{k, n})
	}
	return all
}

// TestIndexOfAMixture: the index is a directory, which may be copied to a store.
func TestIndexOfAMixture(t *testing.T) {
	p := newPlace(t)
	p.mixed()
	s, how := p.serve()
	p.write("all.txt", "s3://data/d\ns3://data/web.tar\n")
	p.mkdir("index")
	want := p.open("all.txt", how, at(p.path("index")))
	if want.IndexPath != p.path("index") || !slices.Equal(want.Entries, []string{"s3://data/d/", "s3://data/web.tar"}) {
		t.Errorf("%s, %q", want.IndexPath, want.Entries)
	}
	s.Before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Has("list-type") {
			t.Errorf("%s was listed", r.URL)
		}
		return false
	}
	got := p.open("all.txt", how, at("s3://data/index"))
	equal(t, describe(want), describe(got), "")
	if none := p.open("all.txt", func(o *Options) { how(o); o.IndexAt = "s3://data/index"; o.CacheDir = t.TempDir() }); none.Digest != want.Digest {
		t.Error(none.Digest)
	}
}

func isOption(err error, field string) bool {
	bad, ok := errors.AsType[*option.Error](err)
	return ok && bad.Field == field
}

// TestLocalCacheOfAMixture: one local cache serves all stores of a list; files of this machine do
// not need it.
func TestLocalCacheOfAMixture(t *testing.T) {
	p := newPlace(t)
	p.mixed()
	s, how := p.serve()
	p.write("all.txt", "s3://data/d\n"+p.path("flat")+"\ns3://data/web.tar\n")
	dir := t.TempDir()
	cached := func(o *Options) { o.Storage.LocalCache = LocalCache{Dir: dir, Size: 1 << 30} }
	d := p.open("all.txt", how, cached)
	want := contentsOf(t, d)
	d.local.tier.Settle()
	testkit.Must(t, d.Close())
	d = p.open("all.txt", how, cached)
	s.Before = func(w http.ResponseWriter, r *http.Request) bool {
		t.Errorf("%s was asked for", r.URL)
		return false
	}
	equal(t, want, contentsOf(t, d), "")
	if d.LocalCache() == nil || d.Requests() == nil || d.Requests().Requests == 0 {
		t.Errorf("%+v, %+v", d.LocalCache(), d.Requests())
	}
	s.Before = nil
	d = p.open("all.txt", how, func(o *Options) {
		o.Storage.LocalCache = LocalCache{Dir: t.TempDir(), Size: 1 << 16, Samples: true}
	})
	if d.LocalSamples() == nil {
		t.Fatal("everything fits into 64 KiB")
	}
	var kept []string
	for i := range d.Len() {
		data, _, seen, err := d.LoadPart(context.Background(), i, 0, nil, grow, nil, 0)
		testkit.Must(t, err)
		d.LocalSamples().Keep(i, seen, data)
		d.Settle()
		if got, id, ok := d.LocalSamples().Load(context.Background(), i, grow); ok {
			kept = append(kept, d.Path(i))
			if id != seen || !bytes.Equal(got, data) {
				t.Errorf("%s: %d bytes of %d, %+v", d.Path(i), len(got), len(data), id)
			}
		}
		d.LocalSamples().Drop(i)
	}
	remote := slices.DeleteFunc(paths(d), func(path string) bool { return !strings.HasPrefix(path, "s3://") })
	if diff := cmp.Diff(remote, kept); diff != "" || len(kept) == 0 || len(kept) == d.Len() {
		t.Errorf("-in a store +kept:\n%s", diff)
	}
	p.write("all.txt", "flat\nd")
	if _, err := p.tryOpen("all.txt", cached); err == nil || !isOption(err, "local cache") {
		t.Error(err)
	}
}

// TestStoresOfAMixture: each dataset is requested from its own store. The endpoint applies only to
// s3.
func TestStoresOfAMixture(t *testing.T) {
	p := newPlace(t)
	p.mixed()
	_, how := p.serve()
	web := httptest.NewServer(&fakestore.Server{Dir: p.path("..")})
	defer web.Close()
	testkit.Must(t, os.Rename(p.path("web.tar"), p.path("../cache.tar")))
	testkit.Must(t, os.MkdirAll(p.path("../other"), 0o755))
	testkit.Must(t, os.Rename(p.path("../cache.tar"), p.path("../other/web.tar")))
	p.write("all.txt", "s3://data/d/\n"+web.URL+"/other/web.tar\ns3://other/web.tar")
	d := p.open("all.txt", how)
	n := d.Len()
	if sampleOf(t, d, n-1) != sampleOf(t, d, n-3) || d.Path(n-1) != "s3://other/web.tar/1" && !strings.HasPrefix(d.Path(n-1), "s3://other/web.tar/") {
		t.Errorf("%q", paths(d))
	}
	testkit.Must(t, os.Remove(p.path("../other/web.tar")))
	if err := loadError(d, n-1); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "s3://other/web.tar") {
		t.Error(err)
	}
}

// TestPartOfAMixtureIsAway: if the folder of one dataset is unmounted, its samples are not at
// fault, and those of other datasets can be read.
func TestPartOfAMixtureIsAway(t *testing.T) {
	p := newPlace(t)
	p.images("x/1.jpg", "y/1.jpg", "y/2.jpg")
	p.write("all.txt", "x\ny")
	d := p.open("all.txt")
	testkit.Must(t, os.Rename(p.path("y"), p.path("elsewhere")))
	p.mkdir("y")
	if err := loadError(d, 2); !errors.Is(err, ErrAway) || fault.Of(err) == fault.File || !strings.Contains(err.Error(), p.path("y")) {
		t.Error(err)
	}
	if err := loadError(d, 0); err != nil {
		t.Error(err)
	}
	p.images("y/1.jpg")
	if err := loadError(d, 2); !errors.Is(err, ErrMissing) {
		t.Error(err)
	}
}
