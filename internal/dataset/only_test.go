package dataset

import (
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

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
