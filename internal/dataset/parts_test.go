package dataset

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfs/batchfs/internal/store"
	"github.com/batchfs/batchfs/internal/testkit"
)

func at(dir string) func(*Options) { return func(o *Options) { o.IndexAt = dir } }

func part(k, n int) func(*Options) { return func(o *Options) { o.Part, o.Rescan = Share{k, n}, true } }

func merge(o *Options) { o.Merge, o.Rescan = true, true }

// kinds makes a dataset of every kind that has its own way of listing, and returns their names and
// URLs.
func kinds(p *place) (names []string, s3 func(*Options)) {
	p.t.Helper()
	varied(p)
	files := p.several()
	p.write("d/b/bad.jpg", "rubbish")
	files = append(files, "d/b/bad.jpg")
	p.write("m.csv", "path,label,height,width,format\n\"a\nb/a\nb.jpg\",x,,,\né/é.jpg,y,5,6,png\n\xff/\xff.jpg,\xff,,,\ngone,,,,\n")
	p.mkdir("trees")
	p.pack("trees/0.tar", "./", files[:3]...)
	p.write("d/aa/readme.txt", "x")
	p.pack("trees/1.tar", "./", append(files[3:], "d/a/readme.txt", "d/aa/readme.txt")...) // a class without images
	for k := range 5 {
		var group []string
		for i := range k { // the first is empty
			for field, text := range map[string]string{"jpg": image("jpeg", 3+i, 4+k, 6), "cls": fmt.Sprint(i)} {
				name := fmt.Sprintf("w%d/%05d.%s", k, i, field)
				p.write(name, text)
				group = append(group, name)
			}
		}
		p.pack(fmt.Sprintf("web-%d.tar", k), "", group...)
	}
	p.settle()
	_, s3 = p.serve()
	return []string{"", "d", "m.csv", "trees", "trees/*.tar", "trees/0.tar/b", "web-{1..4}.tar",
		"s3://data/d", "s3://data/trees", "s3://data/web-{1..4}.tar"}, s3
}

// TestPartsMakeTheSameIndex: any number of parts, joined, gives the same table as a single run, and
// joining reads no header.
func TestPartsMakeTheSameIndex(t *testing.T) {
	p := newPlace(t)
	names, s3 := kinds(p)
	for _, name := range names {
		one := filepath.Join(t.TempDir(), "one")
		want, err := p.tryOpen(name, s3, at(one))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		headers := p.probes()
		for _, n := range []int{1, 3, 7} {
			many := filepath.Join(t.TempDir(), "many")
			for k := range n {
				if _, err := p.tryOpen(name, s3, at(many), part(k, n)); err != nil {
					t.Fatalf("%s: part %d of %d: %v", name, k, n, err)
				}
			}
			if got := p.probes(); got != headers && name != "trees/0.tar/b" {
				t.Errorf("%s: %d parts read %d headers, one run %d", name, n, got, headers)
			}
			for range 2 {
				got, err := p.tryOpen(name, s3, at(many), merge)
				if err != nil {
					t.Fatalf("%s: %d parts: %v", name, n, err)
				}
				equal(t, describe(want), describe(got), "%s: (-one run +%d parts)", name, n)
			}
			again, err := p.tryOpen(name, s3, at(many))
			if err != nil || p.probes() != 0 {
				t.Errorf("%s: headers were read again: %v", name, err)
			} else if diff := cmp.Diff(describe(want), describe(again)); diff != "" {
				t.Errorf("%s: opened again:\n%s", name, diff)
			}
		}
	}
}

// TestPartsThatDoNotFit: the error names all parts that are missing, damaged, numbered otherwise,
// or of an older state of the dataset. Making those again suffices, and reads only what is new.
func TestPartsThatDoNotFit(t *testing.T) {
	p := newPlace(t)
	p.images("a/1.jpg", "a/2.jpg", "b/1.jpg", "b/2.jpg")
	p.settle()
	refused := func(want string, parts ...int) {
		t.Helper()
		_, err := p.tryOpen("", merge)
		e, ok := errors.AsType[*PartsError](err)
		if !ok || len(e.Parts) != len(parts) || !strings.Contains(e.Error(), want) {
			t.Fatalf("want %s of parts %v: %v", want, parts, err)
		}
		for i, k := range parts {
			if e.Parts[i].K != k {
				t.Errorf("parts %v, want %v", e.Parts, parts)
			}
		}
	}
	path := func(k, n int) string {
		return PartPath(strings.TrimSuffix(filepath.Join(p.cache, indexName(located(t, p))), factsExtension), Share{k, n}, factsExtension)
	}
	refused("no part")
	p.open("", part(1, 2))
	refused("0/2 is missing", 0)
	p.open("", part(0, 2))
	p.open("", merge)
	p.open("", part(2, 3))
	p.open("", merge) // what the other parts would find is already known
	whole := p.open("").IndexPath
	for _, file := range []string{path(2, 3), whole} {
		testkit.Must(t, os.Remove(file))
	}
	data, err := os.ReadFile(path(1, 2))
	testkit.Must(t, err)
	data[len(data)-1] ^= 1
	testkit.Must(t, os.WriteFile(path(1, 2), data, 0o600))
	refused("part 1/2 is damaged", 1)
	p.images("a/0.jpg", "c/1.jpg")
	p.settle()
	refused("2 of 2 parts cannot be joined: part 0/2 is of the dataset as it was", 0, 1)
	p.probes()
	p.open("", part(0, 2))
	p.open("", part(1, 2))
	if n := p.probes(); n != 4 {
		t.Errorf("%d headers read for two new files, and two that were in the damaged part", n)
	}
	if d := p.open("", merge); d.Len() != 6 || d.Path(0) != "a/0.jpg" {
		t.Errorf("%q", paths(d))
	}
	if os.Rename(path(0, 2), whole) != nil || p.open("").Len() != 6 {
		t.Error("a part was taken for the whole index")
	}
}

// TestFindingsOfParts: the stored results of parts are used if they are complete and of this
// dataset.
func TestFindingsOfParts(t *testing.T) {
	p := newPlace(t)
	p.images("1.jpg", "2.jpg")
	p.settle()
	d := p.open("")
	keep := func(k int) {
		testkit.Must(t, d.KeepPart(Share{k, 2}, "work", k))
	}
	all := ""
	read := func() error {
		all = ""
		return d.EachPart("work", func(found []byte) error { all += string(found); return nil })
	}
	keep(1)
	if e, ok := errors.AsType[*PartsError](read()); !ok || e.Parts[0] != (Share{0, 2}) {
		t.Errorf("%v", e)
	}
	keep(0)
	if err := read(); err != nil || all != "01" {
		t.Errorf("%s, %v", all, err)
	}
	p.images("3.jpg")
	d = p.open("", func(o *Options) { o.Rescan = true })
	if e, ok := errors.AsType[*PartsError](read()); !ok || len(e.Parts) != 2 {
		t.Errorf("%v", e)
	}
}

// TestIndexAtURL: an index beside the data is copied once, and trusted about the store's content.
// An unusable one is an error.
func TestIndexAtURL(t *testing.T) {
	p := newPlace(t)
	p.several()
	s, s3 := p.serve()
	made := p.open("s3://data/d", s3, at(filepath.Join(p.cache, "made")))
	text, err := os.ReadFile(made.IndexPath)
	testkit.Must(t, err)
	const url = "s3://data/d/.batchfs.facts"
	p.write("d/.batchfs.facts", string(text))
	p.write("at/"+indexName(made.source), string(text))
	lists, reads := 0, 0
	s.Before = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Has("list-type") {
			lists++
		}
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, ".facts") && !strings.Contains(r.URL.Path, "metadata") {
			reads++
		}
		return false
	}
	p.probes()
	for round, place := range []string{url, url, "s3://data/at", "s3://data/at/"} {
		before := reads
		d := p.open("s3://data/d", s3, at(place))
		if diff := cmp.Diff(describe(made), describe(d)); diff != "" || lists != 0 || p.probes() != 0 || (reads-before < 2) != (round%2 == 1) {
			t.Errorf("%s: %d listings, %d reads of the index:\n%s", place, lists, reads-before, diff)
		}
	}
	p.images("d/c/new.jpg")
	if d := p.open("s3://data/d", s3, at(url)); d.Len() != made.Len() {
		t.Error("listed the store")
	}
	rescan := func(o *Options) { o.Rescan = true }
	if d := p.open("s3://data/d", s3, at(url), rescan); d.Len() != made.Len()+1 || d.Report.Scanned != 1 {
		t.Errorf("rescan: %d samples, %d headers read", d.Len(), d.Report.Scanned)
	}
	for _, c := range map[string]struct{ dataset, at, content string }{
		"missing":         {"s3://data/d", "s3://data/nothing", ""},
		"another dataset": {"s3://data/d/a", url, string(text)},
		"damaged":         {"s3://data/d", url, strings.Replace(string(text), "jpg", "jpx", 1)},
		"cut":             {"s3://data/d", url, string(text[:len(text)-9])},
		"no index":        {"s3://data/d", url, "x"},
	} {
		if c.content != "" {
			p.write("d/.batchfs.facts", c.content)
		}
		p.refused(ErrIndexAt, "", c.dataset, s3, at(c.at))
	}
	p.write("d/.batchfs.facts", string(text))
	p.open("s3://data/d", s3, at(url))

	// Whoever may read objects, but not list them, is denied those that do not exist.
	s.Before = func(w http.ResponseWriter, r *http.Request) bool {
		denied := r.URL.Query().Has("list-type") || strings.Contains(r.URL.Path, "metadata")
		if denied {
			w.WriteHeader(http.StatusForbidden)
		}
		return denied
	}
	if d := p.open("s3://data/d", s3, at(url)); d.Len() != made.Len() {
		t.Errorf("without listing: %d samples", d.Len())
	}
	p.refused(store.ErrDenied, "", "s3://data/d", s3)
	p.refused(store.ErrDenied, "", "s3://data/d", s3, at(url), rescan)
}

// TestIndexAtURLOfArchives: a folder of archives is listed only on request, which finds a new
// archive.
func TestIndexAtURLOfArchives(t *testing.T) {
	p := newPlace(t)
	p.images("d/a/1.jpg", "d/b/2.jpg")
	p.mkdir("shards")
	p.pack("shards/0.tar", "", "d/a/1.jpg")
	_, s3 := p.serve()
	text, err := os.ReadFile(p.open("s3://data/shards", s3, at(t.TempDir())).IndexPath)
	testkit.Must(t, err)
	p.write("at.facts", string(text))
	p.pack("shards/1.tar", "", "d/b/2.jpg")
	for rescan, want := range map[bool]int{false: 1, true: 2} {
		d := p.open("s3://data/shards", s3, at("s3://data/at.facts"), func(o *Options) { o.Rescan = rescan })
		if d.Len() != want {
			t.Errorf("rescan %v: %d samples", rescan, d.Len())
		}
	}
}
