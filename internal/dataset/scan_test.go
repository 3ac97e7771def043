package dataset

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
)

func TestScan(t *testing.T) {
	p := newPlace(t)
	for k := 1; k <= 8; k++ {
		p.write(fmt.Sprintf("o%d.jpg", k), image("jpeg", 30, 40, k))
	}
	p.write("o9.jpg", image("jpeg", 30, 40, 0))
	p.write("png.jpg", image("png", 5, 6, 1))
	d := p.open("")
	for i := range d.Len() - 1 {
		h, w := d.Size(i, false)
		sh, sw := d.Size(i, true)
		wantH, wantW := 30, 40
		if k := i + 1; k >= 5 && k <= 8 {
			wantH, wantW = 40, 30
		}
		if h != wantH || w != wantW || sh != 30 || sw != 40 {
			t.Errorf("%s: %dx%d upright, %dx%d stored", d.Path(i), h, w, sh, sw)
		}
	}
	if d.Format(9) != "png" {
		t.Errorf("format %q: the name decided, not the content", d.Format(9))
	}
	r := d.Report
	r.Bytes = 0
	want := Report{Samples: 10, Formats: map[string]int{"jpeg": 9, "png": 1}, Unlabeled: 10, MaxLabel: -1, MaxHeight: 40, MaxWidth: 40, Scanned: 10}
	equal(t, want, r, "report")
}

func TestProbeReadsNoMoreThanNeeded(t *testing.T) { eachWay(t, testProbeReadsNoMoreThanNeeded) }

func testProbeReadsNoMoreThanNeeded(t *testing.T, how Storage) {
	tail := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		need, calls, bytes int
	}{
		{0, 1, firstProbe},
		{firstProbe, 1, firstProbe},
		{firstProbe + 1, 2, 5 * firstProbe},
		{100_000, 3, 21 * firstProbe},
	} {
		p := newPlace(t)
		p.how = how
		p.write("a.jpg", fmt.Sprintf("img jpeg 1 2 1 %d\n", c.need)+tail)
		d := p.open("")
		if d.Problem(0) != "" || p.probes() != c.calls || int(p.c.bytes.Load()) != c.bytes {
			t.Errorf("need %d: %q, %d bytes shown", c.need, d.Problem(0), p.c.bytes.Load())
		}
	}
	// A prober that is never satisfied sees all of a small file, and is not called again.
	p := newPlace(t)
	p.how = how
	p.write("a.jpg", strings.Repeat("x", 3*firstProbe))
	if d := p.open(""); d.Problem(0) != "no image" || p.probes() != 2 {
		t.Errorf("problem %q", d.Problem(0))
	}
}

func TestProberResults(t *testing.T) {
	for name, c := range map[string]struct {
		h    Header
		err  error
		want string
	}{
		"no format":    {Header{Height: 1, Width: 1}, nil, "no usable header"},
		"no height":    {Header{Format: "x", Width: 1}, nil, "no usable header"},
		"huge":         {Header{Format: "x", Width: 1, Height: 1 << 31}, nil, "no usable header"},
		"long reason":  {Header{}, errors.New(strings.Repeat("é\n", 1000)), "é é"},
		"bad reason":   {Header{}, errors.New("\xff\x01"), "? "},
		"no reason":    {Header{}, errors.New(""), "cannot be read"},
		"short always": {Header{}, ErrShort, ErrShort.Error()},
	} {
		p := newPlace(t)
		p.images("a.jpg")
		d := p.open("", func(o *Options) {
			o.Prober = func(_, _ []byte, _ int64) (Header, error) { return c.h, c.err }
		})
		if got := d.Problem(0); !strings.HasPrefix(got, c.want) || len(got) > maxReason || strings.ContainsAny(got, "\n\x01") {
			t.Errorf("%s: problem %q", name, got)
		}
		if h, w := d.Size(0, false); h != 0 || w != 0 || d.Format(0) != "" {
			t.Errorf("%s: %dx%d %q of an unreadable file", name, h, w, d.Format(0))
		}
	}
}

func TestUnreadableFiles(t *testing.T) { eachWay(t, testUnreadableFiles) }

func testUnreadableFiles(t *testing.T, how Storage) {
	p := newPlace(t)
	p.how = how
	p.images("c/ok.jpg")
	p.write("c/empty.jpg", "")
	p.write("c/rubbish.jpg", "rubbish")
	p.link("nowhere", "c/broken.jpg")
	p.link("loop.jpg", "c/loop.jpg")
	testkit.Must(t, errors.Join(unix.Mkfifo(p.path("c/fifo.jpg"), 0o644), unix.Mknod(p.path("c/socket.jpg"), unix.S_IFSOCK|0o644, 0)))
	want := map[string]string{
		"c/broken.jpg": "no such file or directory", "c/empty.jpg": "no image", "c/fifo.jpg": "not a regular file",
		"c/loop.jpg": "too many levels of symbolic links", "c/ok.jpg": "", "c/rubbish.jpg": "no image", "c/socket.jpg": "not a regular file",
	}
	if os.Geteuid() != 0 {
		p.images("c/secret.jpg")
		os.Chmod(p.path("c/secret.jpg"), 0)
		want["c/secret.jpg"] = "permission denied"
	} else {
		t.Log("SKIPPED in part: a file without permission cannot be made as root")
	}
	p.settle()
	for _, round := range []string{"scanned", "reopened"} {
		d := p.open("")
		got := map[string]string{}
		for i := range d.Len() {
			got[d.Path(i)] = d.Problem(i)
		}
		equal(t, want, got, "%s", round)
		if d.Report.Unreadable != len(want)-1 {
			t.Errorf("%s: report %+v", round, d.Report)
		}
	}
}

// TestFailedFilesAreTriedAgain: no timestamp shows that a file can be opened again.
func TestFailedFilesAreTriedAgain(t *testing.T) {
	p := newPlace(t)
	elsewhere := t.TempDir()
	p.images("c/a.jpg")
	p.link(elsewhere+"/b.jpg", "c/b.jpg")
	p.settle()
	d := p.open("")
	if d.Problem(1) == "" {
		t.Fatal("no problem")
	}
	digest := d.Digest
	p.probes()
	testkit.Must(t, os.WriteFile(elsewhere+"/b.jpg", []byte(image("png", 3, 4, 1)), 0o644))
	d = p.open("")
	if d.Problem(1) != "" || d.Format(1) != "png" || p.probes() != 1 || d.Report.Reused != 1 || d.Digest == digest {
		t.Errorf("problem %q, report %+v", d.Problem(1), d.Report)
	}
	again := p.open("")
	if p.probes() != 0 {
		t.Error("what was learned was not kept")
	}
	equal(t, describe(d), describe(again), "")
}

func TestProgress(t *testing.T) {
	p := newPlace(t)
	for i := range 300 {
		p.images(fmt.Sprintf("%03d.jpg", i))
	}
	for _, workers := range []int{0, 1, 8} {
		var seen []int64
		p.open("", func(o *Options) {
			o.CacheDir, o.Workers = "", workers
			o.Progress = func(done, total int64) {
				if total != 300 {
					t.Errorf("total %d", total)
				}
				seen = append(seen, done)
			}
		})
		if !slices.IsSorted(seen) || seen[0] != 0 || seen[len(seen)-1] != 300 || len(seen) < 4 {
			t.Errorf("%d workers: progress %v", workers, seen)
		}
	}
}

// TestListingProgress: how many bytes of archives were searched never decreases, and ends with all
// of them, also of several datasets, and where an archive has its samples in another order.
func TestListingProgress(t *testing.T) {
	p := newPlace(t)
	p.mkdir("s")
	total := int64(0)
	for k := range 4 {
		names := []string{fmt.Sprint(k, "a.jpg"), fmt.Sprint(k, "b.jpg")}
		p.images(names...)
		p.pack(fmt.Sprintf("s/%d.tar", k), "", names...)
		info, err := os.Stat(p.path(fmt.Sprintf("s/%d.tar", k)))
		testkit.Must(t, err)
		total += info.Size()
	}
	p.write("all.txt", "s/0.tar\ns/1.tar\ns\n")
	for name, want := range map[string]int64{"s": total, "all.txt": total + total/2} {
		last := int64(-1)
		p.open(name, func(o *Options) {
			o.CacheDir = ""
			o.Listing = func(done, all int64) {
				if done < last || done > all {
					t.Errorf("%s: %d of %d after %d", name, done, all, last)
				}
				last = done
			}
		})
		equal(t, want, last, "%s", name)
	}
	got := ""
	j := joint{report: func(done, total int64) { got += fmt.Sprint(done, "/", total, " ") }, total: 10}
	a, b := j.part(), j.part()
	for _, report := range []func(){func() { a(4, 0) }, func() { b(0, 5) }, func() { a(3, 0) }, func() { b(5, 5) }, func() { a(10, 0) }} {
		report()
	}
	equal(t, "4/10 4/15 4/15 9/15 15/15 ", got, "two at once")
}

func TestLinks(t *testing.T) {
	p := newPlace(t)
	p.images("a/1.jpg", "a/deep/2.jpg")
	p.link("a", "b")
	p.link("../a/deep", "c/again")
	d := p.open("")
	want := []string{"a/1.jpg", "a/deep/2.jpg", "b/1.jpg", "b/deep/2.jpg", "c/again/2.jpg"}
	equal(t, want, paths(d), "")
	for name, target := range map[string]string{"a/loop": ".", "a/deep/loop": "..", "top": "..", "a/far": "../..", "b": "..", "a/x": "../a/deep/.."} {
		p := newPlace(t)
		p.images("a/1.jpg", "a/deep/2.jpg")
		p.link(target, name)
		p.refused(errLinkCycle, p.path(name), "")
	}
	// Two links that lead to each other's directory.
	p = newPlace(t)
	p.images("a/1.jpg", "b/2.jpg")
	p.link("../b", "a/x")
	p.link("../a", "b/y")
	p.refused(errLinkCycle, p.path("a/x/y")+": ", "")
}

func TestRootThroughALink(t *testing.T) {
	p := newPlace(t)
	p.images("data/a/1.jpg")
	p.link("data", "link")
	p.settle()
	d, linked := p.open("data"), p.open("link")
	if linked.Root != d.Root || linked.IndexPath != d.IndexPath || p.probes() != 1 {
		t.Errorf("root %q, index %q", linked.Root, linked.IndexPath)
	}
}

func TestNoDataset(t *testing.T) {
	p := newPlace(t)
	p.images("some/1.jpg", "file.jpg")
	p.write("file.log", "")
	p.write("words/a.txt", "")
	p.write("words/b/c.tif", "")
	p.write("words/b/d.tif", "")
	p.write("none.csv", "path,label\n")
	p.write("none.jsonl", "\n")
	p.mkdir("void/class")
	p.mkdir("d.csv/class")
	writeParquet(t, p.path("none.parquet"), []struct {
		Path string `parquet:"path"`
	}{})
	p.link("nowhere", "broken")
	testkit.Must(t, unix.Mkfifo(p.path("fifo.csv"), 0o644))
	for name, c := range map[string]struct {
		err   error
		words string
	}{
		"missing":      {ErrNotExist, "missing"},
		"missing.csv":  {ErrNotExist, "missing.csv"},
		"file.jpg/x":   {ErrNotExist, "x"},
		"broken":       {ErrNotExist, "broken"},
		"file.jpg":     {ErrKind, "file.jpg"},
		"file.log":     {ErrKind, ".jsonl"},
		"fifo.csv":     {ErrKind, "fifo.csv"},
		"void":         {ErrEmpty, "void"},
		"d.csv":        {ErrEmpty, "d.csv"},
		"words":        {ErrEmpty, "files of other kinds: 2 .tif, 1 .txt"},
		"none.csv":     {ErrEmpty, "none.csv"},
		"none.jsonl":   {ErrEmpty, "none.jsonl"},
		"none.parquet": {ErrEmpty, "none.parquet"},
	} {
		p.refused(c.err, c.words, name)
	}
	if _, err := p.tryOpen("some", func(o *Options) { o.Prober = nil }); err == nil {
		t.Error("no prober, no error")
	}
	if os.Geteuid() != 0 {
		os.Chmod(p.path("some"), 0o300)
		defer os.Chmod(p.path("some"), 0o755)
		p.refused(os.ErrPermission, "some", "")
	}
}
