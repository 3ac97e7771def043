package dataset

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// shards packs images as class folders in three archives, and some as WebDatasets with labels.
func (p *place) shards() {
	names := p.several()
	p.mkdir("s/more1")
	p.mkdir("s/more2")
	p.pack("s/more1/0.tar", "", names[:3]...)
	p.pack("s/more1/1.tar", "", names[3:5]...)
	p.pack("s/more2/1.tar", "", names[5:]...)
	for k, name := range []string{"s/a1.tar", "s/more1/a2.tar", "s/a10.tar"} {
		label := strings.TrimSuffix(names[k], filepath.Ext(names[k])) + ".cls"
		p.write(label, "3")
		p.pack(name, "", names[k], label)
	}
}

// TestList: the shards of a list are one dataset, in the list's order. Each Open reads the list
// again. An index covers the archives that the list named when it was made.
func TestList(t *testing.T) {
	p := newPlace(t)
	p.shards()
	p.write("s/classes.txt", "\xEF\xBB\xBF# train\r\n\r\nmore1/1.tar\r\n"+p.path("s/more2/1.tar")+"\r\n  more1/0.tar ")
	want, got := p.open("d"), p.open("s/classes.txt")
	if diff := cmp.Diff(contentsOf(t, want), contentsOf(t, got)); diff != "" || got.Digest != want.Digest || got.Name != p.path("s/classes.txt") {
		t.Errorf("%s (-directory +list):\n%s", got.Name, diff)
	}
	p.write("s/one.txt", "{a,a}1.tar")
	p.refused(nil, p.path("s/a1.tar")+" is named twice", "s/one.txt")
	p.write("s/one.txt", "../d")
	if one := p.open("s/one.txt"); one.Digest != want.Digest || one.Name != p.path("d") {
		t.Errorf("a list of one dataset is %s", one.Name)
	}
	p.write("s/ordered.txt", "a10.tar\na1.tar\n../s/a2.tar")
	p.refused(ErrNotExist, "", "s/ordered.txt")
	p.write("s/ordered.txt", "a10.tar\na1.tar")
	d := p.open("s/ordered.txt")
	first := []string{"a10.tar/b/1.jpg", "a1.tar/b-1/z.jpg"}
	if !slices.Equal(paths(d), first) || !slices.Equal(d.Blocks(), []int64{1, 1}) || d.Root != p.path("s") {
		t.Errorf("%s: %q, %d", d.Root, paths(d), d.Blocks())
	}
	p.settle()
	p.open("s/ordered.txt")
	if again := p.open("s/ordered.txt"); again.Report.Scanned != 0 || !slices.Equal(paths(again), first) {
		t.Errorf("%d headers were read again: %q", again.Report.Scanned, paths(again))
	}
	p.write("s/ordered.txt", "a1.tar\nmore1/a2.tar\na1.tar")
	if d = p.open("s/ordered.txt"); !slices.Equal(paths(d), []string{"a1.tar/b-1/z.jpg", "more1/a2.tar/b/2.png", "a1.tar/b-1/z.jpg"}) || !slices.Equal(d.Blocks(), []int64{1, 1, 1}) {
		t.Errorf("%q, %d", paths(d), d.Blocks())
	}
}

// TestBraces: braces in a pattern expand as in a shell.
func TestBraces(t *testing.T) {
	for pattern, want := range map[string][]string{
		"a*[b]":              {"a*[b]"},
		"{a,b}-{x,}":         {"a-x", "a-", "b-x", "b-"},
		"{a,b{1..2},c}":      {"a", "b1", "b2", "c"},
		"{009..011}.tar":     {"009.tar", "010.tar", "011.tar"},
		`\{a,b\}{c\,d,e\}}`:  {`\{a,b\}c\,d`, `\{a,b\}e\}`},
		"a}{b":               nil,
		"{a":                 nil,
		"{a}":                nil,
		"{2..1}":             nil,
		"{-1..1}":            nil,
		"{0..2000000}":       nil,
		"{0..2000}{0..2000}": nil,
	} {
		if got, err := expand(pattern); !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%s: %q, %v", pattern, got, err)
		}
	}
}

// TestListOfStore: lines are URLs, or relative to the list, if that is in a store.
func TestListOfStore(t *testing.T) {
	p := newPlace(t)
	p.shards()
	_, how := p.serve()
	p.write("here.txt", "s3://data/s/more1/1.tar\ns3://data/s/more1/0.tar\ns3://data/s/more2/1.tar\n")
	p.write("s/there.txt", "more1/1.tar\nmore1/0.tar\ns3://data/s/more2/1.tar")
	want := p.open("d")
	for _, d := range []*Dataset{p.open("here.txt", how), p.open("s3://data/s/there.txt", how)} {
		if diff := cmp.Diff(contentsOf(t, want), contentsOf(t, d)); diff != "" || d.Digest != want.Digest || !d.Remote {
			t.Errorf("%s (-here +store):\n%s", d.Name, diff)
		}
	}
	if url := StoreURL(p.path("here.txt")); url != "s3://data/s/more1/1.tar" || StoreURL(url) != url || StoreURL(p.path("s/none.txt")) != "" {
		t.Error(url)
	}
	testkit.Must(t, unix.Mkfifo(p.path("pipe.txt"), 0o644)) // which nobody writes to
	equal(t, "", StoreURL(p.path("pipe.txt")), "a pipe")
	p.write("s/mixed.txt", "more2\nmore1/0.tar\n")
	want = p.open("s/mixed.txt")
	if d := p.open("s3://data/s/mixed.txt", how); !slices.Equal(paths(d), paths(want)) || d.Digest != want.Digest || want.Len() != 5 {
		t.Errorf("%q, not %q", paths(d), paths(want))
	}
	p.refused(ErrNotExist, "", "s3://data/no.txt", how)
}

func TestBadList(t *testing.T) {
	p := newPlace(t)
	p.shards()
	p.mkdir("empty")
	p.write("d/a/readme", "x")
	p.images("parts/train/1.jpg", "parts/val/1.jpg")
	_, how := p.serve()
	for text, want := range map[string]string{
		"# nothing\n\n":                "names nothing",
		"s/more1/0.tar\n\nnone\n":      "line 3: " + p.path("none") + ": dataset does not exist",
		"s/more1/0.tar\nempty":         "line 2: " + p.path("empty") + ": no images found",
		"d/a/9.jpg":                    "line 1: " + p.path("d/a/9.jpg") + ": neither a directory, nor a manifest",
		"s/more1/0.tar\nlist.txt":      "line 2: a list of its own",
		"d\ns3://data/other.txt":       "line 2: a list of its own",
		"d\nd/a/readme":                "line 2: " + p.path("d/a/readme") + ": neither a directory",
		"s3://data/d\ns3://b/x/":       "line 2: s3://b/x/: dataset does not exist",
		"d\nhttps://u:word@h/x/":       "line 2: https://h/x/metadata.csv: the store cannot be reached",
		"s3://data/../x.tar":           "line 1: no name of an object",
		"s3://data//x.tar":             "line 1: no name of an object",
		"s/more1/0.tar/none\nd":        "line 1: " + p.path("s/more1/0.tar/none") + ": no images found",
		"no/*.tar":                     "no such file or directory",
		"s/no.tar":                     "does not exist",
		"s/{0.tar":                     "without its pair",
		"d\ns3://data/s/{0.tar":        "without its pair",
		"d\ns/*.tar\ns/more1/*.tar":    "line 3: " + p.path("s/more1/*.tar") + ": cannot be used as an archive of images: a2.tar has an order of its own",
		"s/more1/1.tar\ns/more1/9.tar": "does not exist",
		"d\ns3://data/s/../d/":         "line 2: no name of an object",
		"parts\nd":                     "line 1: " + p.path("parts") + ": its folders are named like parts of a dataset",
	} {
		p.write("list.txt", text)
		_, err := p.tryOpen("list.txt", how)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "word") {
			t.Errorf("%q: %v, not %s", text, err, want)
		}
	}
	testkit.Must(t, os.Truncate(p.path("list.txt"), maxList+1))
	p.refused(ErrList, "", "list.txt")
}

// TestURLsInManifests: URLs lead to images below the manifest's folder, or fail with an error that
// says what to do.
func TestURLsInManifests(t *testing.T) {
	p := newPlace(t)
	p.images("d/1.jpg", "d/sub/2.jpg")
	_, how := p.serve()
	p.write("d/m.csv", "path\n1.jpg\ns3://data/d/sub/2.jpg\n")
	if d := p.open("s3://data/d/m.csv", how); !slices.Equal(paths(d), []string{"1.jpg", "sub/2.jpg"}) {
		t.Errorf("%q", paths(d))
	}
	p.write("d/n.csv", "path\n1.jpg\nhttps://u:word@h/2.jpg\n")
	for _, open := range []func() (*Dataset, error){
		func() (*Dataset, error) { return p.tryOpen("d/m.csv", how) },
		func() (*Dataset, error) { return p.tryOpen("s3://data/d/n.csv", how) },
	} {
		if _, err := open(); !errors.Is(err, ErrManifest) || !strings.Contains(err.Error(), "line 3: the path is a URL") || strings.Contains(err.Error(), "word") {
			t.Error(err)
		}
	}
}

// TestOnly: only chosen samples are in the dataset, and the index serves any choice.
func TestOnly(t *testing.T) {
	p := newPlace(t)
	p.images("a/1.png", "a/2.jpg", "b/1.png", "c/2.jpg")
	p.settle()
	all := p.open("")
	whole := all.Digest
	only := func(part string) func(*Options) {
		return func(o *Options) { o.Only = func(path string) bool { return strings.Contains(path, part) } }
	}
	p.probes()
	ds := p.open("", only("1."))
	if got, want := paths(ds), []string{"a/1.png", "b/1.png"}; !slices.Equal(got, want) || !slices.Equal(labels(ds), []int{0, 1}) {
		t.Errorf("there are %q with labels %v, want %q", got, labels(ds), want)
	}
	if ds.Left != 2 || ds.Report.Samples != 2 || len(ds.Classes) != 3 || ds.Digest == whole {
		t.Errorf("the report is %+v, the digest %s", ds.Report, ds.Digest)
	}
	if got := bytesOfSample(t, ds, 1); !strings.HasPrefix(got, "img") {
		t.Errorf("sample 1 is %q", got)
	}
	if ds := p.open("", only("/")); ds.Digest != whole || ds.Left != 0 {
		t.Error("all that there is, chosen, is another dataset")
	}
	if ds := p.open(""); ds.Digest != whole || p.probes() != 0 {
		t.Error("a choice changed the index")
	}
	p.refused(ErrNone, "", "", only("nothing"))
}

// TestOnlyOfList: the remaining samples of each dataset are read from the right place.
func TestOnlyOfList(t *testing.T) {
	p := newPlace(t)
	p.shards()
	p.images("e/1.png", "e/2.png")
	p.write("all.txt", "s/a10.tar\ne\ns/a1.tar")
	all := p.open("all.txt")
	for k := range all.Len() {
		one := all.Path(k)
		ds := p.open("all.txt", func(o *Options) { o.Only = func(path string) bool { return path == one } })
		if ds.Len() != 1 || ds.Path(0) != one || bytesOfSample(t, ds, 0) != bytesOfSample(t, all, k) {
			t.Errorf("only %s: there are %d, the first is %q", one, ds.Len(), ds.Path(0))
		}
	}
}

func bytesOfSample(t *testing.T, ds *Dataset, i int) string {
	t.Helper()
	data, err := ds.Read(i, nil, grow)
	testkit.Must(t, err)
	return string(data)
}
