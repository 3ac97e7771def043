package dataset

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shards packs the images of several as class folders in three places, and as WebDatasets with labels.
func (p *place) shards() {
	names := p.several()
	p.mkdir("s/more")
	p.mkdir("t")
	p.pack("s/0.tar", "", names[:3]...)
	p.pack("s/more/1.tar", "", names[3:5]...)
	p.pack("t/2.tar", "", names[5:]...)
	for k, name := range []string{"s/a.tar", "s/more/b.tar", "t/c.tar"} {
		label := strings.TrimSuffix(names[k], filepath.Ext(names[k])) + ".cls"
		p.write(label, "3")
		p.pack(name, "", names[k], label)
	}
}

// TestList: a list is the archives that it names, in its order; those of class folders are one dataset. It is read again at
// each Open, and what is indexed is of the archives that it named then.
func TestList(t *testing.T) {
	p := newPlace(t)
	p.shards()
	p.write("s/classes.txt", "\xEF\xBB\xBF# train\r\n\r\nmore/1.tar\r\n"+p.path("t/2.tar")+"\r\n  [0].tar ")
	want, got := p.open("d"), p.open("s/classes.txt")
	if diff := cmp.Diff(contentsOf(t, want), contentsOf(t, got)); diff != "" || got.Digest() != want.Digest() || got.Name() != p.path("s/classes.txt") {
		t.Errorf("%s (-directory +list):\n%s", got.Name(), diff)
	}
	p.write("s/ordered.txt", "../t/c.tar\nmore/b.tar\n../s/{a,a}.tar")
	if _, err := p.tryOpen("s/ordered.txt"); err == nil || !strings.Contains(err.Error(), p.path("s/a.tar")+" is named twice") {
		t.Error(err)
	}
	p.write("s/ordered.txt", "../t/c.tar\nmore/b.tar\n../s/a.tar")
	d := p.open("s/ordered.txt")
	first := []string{"t/c.tar/b/1.jpg", "s/more/b.tar/b/2.png", "s/a.tar/b-1/z.jpg"}
	if !slices.Equal(paths(d), first) || !slices.Equal(d.Blocks(), []int64{1, 1, 1}) || d.Root() != p.path("") {
		t.Errorf("%s: %q, %d", d.Root(), paths(d), d.Blocks())
	}
	p.settle()
	p.open("s/ordered.txt")
	if again := p.open("s/ordered.txt"); again.Report().Scanned != 0 || !slices.Equal(paths(again), first) {
		t.Errorf("%d headers were read again: %q", again.Report().Scanned, paths(again))
	}
	p.write("s/ordered.txt", "a.tar\nmore/b.tar")
	if d = p.open("s/ordered.txt"); !slices.Equal(paths(d), []string{"a.tar/b-1/z.jpg", "more/b.tar/b/2.png"}) {
		t.Errorf("%q", paths(d))
	}
}

// TestListOfStore: lines are URLs of one store, or relative to a list that is there.
func TestListOfStore(t *testing.T) {
	p := newPlace(t)
	p.shards()
	_, how := p.serve()
	p.write("here.txt", "s3://data/s/more/*.tar\ns3://data/{s/0,t/2}.tar\n")
	p.write("s/there.txt", "more/1.tar\n0.tar\ns3://data/t/2.tar")
	p.write("s/classes.txt", "more/1.tar\n0.tar\n../t/2.tar")
	if _, err := p.tryOpen("here.txt", how); err == nil || !strings.Contains(err.Error(), "order of its own") {
		t.Errorf("both kinds: %v", err)
	}
	p.write("here.txt", "s3://data/s/more/1*.tar\ns3://data/{s/0,t/2}.tar\n")
	want := p.open("s/classes.txt")
	for _, d := range []*Dataset{p.open("here.txt", how), p.openURL("s3://data/s/there.txt", how)} {
		if diff := cmp.Diff(contentsOf(t, want), contentsOf(t, d)); diff != "" || d.Digest() != want.Digest() || !d.Remote() {
			t.Errorf("%s (-here +store):\n%s", d.Name(), diff)
		}
	}
	if url := StoreURL(p.path("here.txt")); url != "s3://data/s/more/1*.tar" || StoreURL(url) != url || StoreURL(p.path("s/classes.txt")) != "" {
		t.Error(url)
	}
	if _, err := p.tryOpenURL("s3://data/no.txt", how); !errors.Is(err, ErrNotExist) {
		t.Error(err)
	}
}

func TestBadList(t *testing.T) {
	p := newPlace(t)
	p.shards()
	_, how := p.serve()
	for text, want := range map[string]string{
		"# nothing\n\n":                      "names nothing",
		"s/0.tar\n\nd\n":                     "line 3: neither an archive",
		"d/a/9.jpg":                          "list images in a .csv",
		"s3://data/s/0.tar\ns/0.tar":         "line 2: it is not in the same store",
		"s/0.tar\ns3://data/s/0.tar":         "line 2: it is not in the same store",
		"s3://data/s/0.tar\ns3://b/x.tar":    "line 2: it is not in the same store",
		"https://u:word@h/x.tar\nhttps://h/": "line 2: it is not in the same store",
		"s3://data/../x.tar":                 "line 1: no name of an object",
		"s3://data//x.tar":                   "line 1: no name of an object",
		"s/0.tar/d":                          "line 1: neither an archive",
		"no/*.tar":                           "no such file or directory",
		"s/no.tar":                           "does not exist",
		"s/{0.tar":                           "without its pair",
	} {
		p.write("list.txt", text)
		_, err := p.tryOpen("list.txt", how)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "word") {
			t.Errorf("%q: %v, not %s", text, err, want)
		}
	}
	if err := os.Truncate(p.path("list.txt"), maxList+1); err != nil {
		t.Fatal(err)
	}
	if _, err := p.tryOpen("list.txt"); !errors.Is(err, ErrList) {
		t.Error(err)
	}
}

// TestURLsInManifests are those of images below its folder, or an error that says what to do.
func TestURLsInManifests(t *testing.T) {
	p := newPlace(t)
	p.images("d/1.jpg", "d/sub/2.jpg")
	_, how := p.serve()
	p.write("d/m.csv", "path\n1.jpg\ns3://data/d/sub/2.jpg\n")
	if d := p.openURL("s3://data/d/m.csv", how); !slices.Equal(paths(d), []string{"1.jpg", "sub/2.jpg"}) {
		t.Errorf("%q", paths(d))
	}
	p.write("d/n.csv", "path\n1.jpg\nhttps://u:word@h/2.jpg\n")
	for _, open := range []func() (*Dataset, error){
		func() (*Dataset, error) { return p.tryOpen("d/m.csv", how) },
		func() (*Dataset, error) { return p.tryOpenURL("s3://data/d/n.csv", how) },
	} {
		if _, err := open(); !errors.Is(err, ErrManifest) || !strings.Contains(err.Error(), "line 3: the path is a URL") || strings.Contains(err.Error(), "word") {
			t.Error(err)
		}
	}
}
