package dataset

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/testkit"
)

func TestBlocks(t *testing.T) {
	p := newPlace(t)
	names := p.several()
	p.mkdir("ordered")
	p.mkdir("spread")
	for k, part := range [][]string{names[:2], names[2:5], names[5:]} {
		some := slices.Clone(part)
		for _, name := range part {
			label := strings.TrimSuffix(name, filepath.Ext(name)) + ".cls"
			p.write(label, "1")
			some = append(some, label)
		}
		slices.Sort(some)
		p.pack(fmt.Sprintf("ordered/%d.tar", k), "", some...)
	}
	p.pack("spread/0.tar", "", "d/a/9.jpg", "d/b/1.jpg")
	p.pack("spread/1.tar", "", "d/a/x.bmp", "d/b/2.png")
	for dataset, want := range map[string][]int64{"d": nil, "ordered": {2, 3, 2}, "spread": nil, "spread/0.tar": {2}} {
		if got := p.open(dataset).Blocks(); !slices.Equal(got, want) {
			t.Errorf("%s: %d", dataset, got)
		}
	}
}

// pack writes a tar of files in the dataset's directory, in this order, below a folder.
func (p *place) pack(name, folder string, files ...string) {
	p.t.Helper()
	f, err := os.Create(p.path(name))
	testkit.Must(p.t, err)
	w := tar.NewWriter(f)
	for _, n := range files {
		data, err := os.ReadFile(p.path(n))
		if err == nil {
			err = w.WriteHeader(&tar.Header{Name: folder + strings.TrimPrefix(n, "d/"), Size: int64(len(data)), Mode: 0o644})
		}
		if err == nil {
			_, err = w.Write(data)
		}
		testkit.Must(p.t, err)
	}
	testkit.Must(p.t, errors.Join(w.Close(), f.Close()))
}

// contentsOf is the content of a dataset, without where it is stored.
func contentsOf(t *testing.T, d *Dataset) (all []string) {
	for i := range d.Len() {
		data, err := d.Read(i, nil, grow)
		testkit.Must(t, err)
		all = append(all, d.Path(i)+"\n"+d.Format(i)+"\n"+string(data))
	}
	return append(all, d.Classes...)
}

// TestArchiveIsItsDirectory: a prefix of keys in a store, and tars here or there, have the order,
// labels, bytes and digest of a directory with the same files, whatever the tars are named, and in
// whatever order.
func TestArchiveIsItsDirectory(t *testing.T) {
	p := newPlace(t)
	names := p.several()
	p.mkdir("shards")
	p.pack("one.tar", "", append(names, "d/a/readme.txt")...)
	p.pack("top.tar", "data/set/", names...)
	p.pack("shards/01.tar", "./", names[:3]...)
	p.pack("shards/00.tar", "", names[3:]...)
	p.write("d.csv", "path,label\n"+strings.Join(names, ",1\n")+",1\n")
	p.settle()
	s, there := p.serve()
	same := func(name string, want *Dataset) {
		t.Helper()
		d := p.open(name, there)
		equal(t, contentsOf(t, want), contentsOf(t, d), "%s", name)
		if d.Digest != want.Digest || !slices.Equal(labels(d), labels(want)) {
			t.Errorf("%s: digest %s, labels %v", name, d.Digest, labels(d))
		}
		again := p.open(name, there)
		if again.Report.Scanned != 0 || !cmp.Equal(describe(d), describe(again)) {
			t.Errorf("%s: %d headers were read again:\n%s", name, again.Report.Scanned, cmp.Diff(describe(d), describe(again)))
		}
		before := s.Requests.Load()
		if _, err := again.Check(0); err != nil || s.Requests.Load() != before {
			t.Errorf("%s: Check asked the store: %v", name, err)
		}
	}
	want, manifest := p.open("d"), p.open("d.csv")
	archives := []string{"one.tar", "top.tar", "shards", "shards/*.tar", "shards/{00..01}.tar", "shards/{01,00}.tar"}
	for _, how := range []Storage{{}, {Direct: true}} {
		p.how = how
		for _, name := range archives {
			same(name, want)
		}
	}
	p.how = Storage{}
	for _, name := range append(archives, "d", "d/") {
		same("s3://data/"+name, want)
	}
	same("s3://data/d.csv", manifest)
}

// TestNamedLabels: a WebDataset's classes are not folders, so they may have any name, and a sample
// may have no class.
func TestNamedLabels(t *testing.T) {
	p := newPlace(t)
	p.images("d/1.jpg", "d/2.jpg", "d/3.jpg")
	p.write("d/1.cls", "train")
	p.write("d/3.cls", "images")
	p.pack("x.tar", "", "d/1.jpg", "d/1.cls", "d/2.jpg", "d/3.jpg", "d/3.cls")
	if d := p.open("x.tar"); !slices.Equal(labels(d), []int{1, -1, 0}) || !slices.Equal(d.Classes, []string{"images", "train"}) {
		t.Errorf("%d of %q", labels(d), d.Classes)
	}
}

// TestArchiveChanges: after an archive is replaced, each of its samples is a changed file until the
// archive is indexed.
func TestArchiveChanges(t *testing.T) {
	p := newPlace(t)
	p.images("d/a/1.jpg", "d/b/2.jpg")
	p.pack("x.tar", "", "d/a/1.jpg", "d/b/2.jpg")
	d := p.open("x.tar")
	p.write("d/a/1.jpg", image("jpeg", 10, 20, 1)+"more")
	p.pack("x.tar", "", "d/b/2.jpg", "d/a/1.jpg")
	for i := range d.Len() {
		_, id, err := d.Load(context.Background(), i, nil, grow)
		if !errors.Is(err, ErrChanged) || fault.Of(err) != fault.File || id.Known() {
			t.Errorf("Load: %+v, %v", id, err)
		}
		if id, err := d.Check(i); !errors.Is(err, ErrChanged) || id.Known() {
			t.Errorf("Check: %+v, %v", id, err)
		}
	}
	p.probes()
	if d := p.open("x.tar"); d.Stat(0).Size != int64(len(image("jpeg", 10, 20, 1)+"more")) || p.probes() != 2 {
		t.Errorf("the new index has %+v", d.Stat(0))
	}
	testkit.Must(t, os.Remove(p.path("x.tar")))
	if _, _, err := d.Load(context.Background(), 0, nil, nil); !errors.Is(err, ErrMissing) {
		t.Errorf("without the archive: %v", err)
	}
}

// TestClassesWithoutImages: a folder without images is a class in an archive as in a directory, so
// that labels are the same.
func TestClassesWithoutImages(t *testing.T) {
	p := newPlace(t)
	p.images("d/b/1.jpg", "d/d/sub/2.jpg", "d/.hidden/3.jpg")
	p.mkdir("d/a")
	p.write("d/c/sub/readme.txt", "")
	p.write("outside/readme.txt", "")
	want := p.open("d")
	for _, root := range []string{"d", "."} {
		for name, add := range map[string]func(w io.Writer, files fs.FS) error{
			"x.tar": func(w io.Writer, files fs.FS) error {
				t := tar.NewWriter(w)
				return errors.Join(t.AddFS(files), t.Close())
			},
			"x.zip": func(w io.Writer, files fs.FS) error {
				z := zip.NewWriter(w)
				return errors.Join(z.AddFS(files), z.Close())
			},
		} {
			var archive bytes.Buffer
			testkit.Must(t, add(&archive, os.DirFS(p.path(root))))
			p.write("../"+name, archive.String())
			d := p.open("../" + name)
			if !slices.Equal(d.Classes, want.Classes) || !slices.Equal(labels(d), labels(want)) {
				t.Errorf("%s of %s: classes %q, labels %v; those of the directory are %q, %v", name, root, d.Classes, labels(d), want.Classes, labels(want))
			}
		}
	}
	if d := p.open("../x.tar/d"); !slices.Equal(d.Classes, want.Classes) {
		t.Errorf("a folder of the archive has classes %q", d.Classes)
	}
}

// TestArchiveOfTheSameTime: facts about an archive are not used for another one, even if that has
// the same time, and its first sample is in the same place.
func TestArchiveOfTheSameTime(t *testing.T) {
	p := newPlace(t)
	p.images("1.jpg", "2.jpg")
	p.pack("x.tar", "", "1.jpg")
	p.settle()
	p.open("x.tar")
	p.write("1.jpg", image("jpeg", 30, 40, 1))
	p.pack("x.tar", "", "1.jpg", "2.jpg")
	p.settle()
	if height, width := p.open("x.tar").Size(0, false); height != 30 || width != 40 {
		t.Errorf("the first image is said to be %dx%d", height, width)
	}
}

// TestArchiveWrittenWhileSearched: an archive that was written just before it is searched may be
// written again with the same time, however long the search takes.
func TestArchiveWrittenWhileSearched(t *testing.T) {
	p := newPlace(t)
	p.images("1.jpg", "2.jpg")
	p.pack("x.tar", "", "1.jpg")
	synctest.Test(t, func(t *testing.T) {
		written := time.Now()
		same := func() {
			testkit.Must(t, os.Chtimes(p.path("x.tar"), written, written))
		}
		same()
		once := sync.OnceFunc(func() { time.Sleep(time.Minute) })
		p.open("x.tar", func(o *Options) { o.Listing = func(int64, int64) { once() } })
		p.pack("x.tar", "", "2.jpg")
		same()
		if name := p.open("x.tar").Path(0); name != "2.jpg" {
			t.Errorf("the image is said to be %s", name)
		}
	})
}

// TestFolderInAnArchive: a folder in an archive is a dataset, just as a folder on disk is.
func TestFolderInAnArchive(t *testing.T) {
	p := newPlace(t)
	p.images("d/train/a/1.jpg", "d/train/b/2.jpg", "d/val/a/3.jpg", "d/val/b/4.jpg")
	p.pack("x.tar", "all/", "d/train/a/1.jpg", "d/train/b/2.jpg", "d/val/a/3.jpg", "d/val/b/4.jpg")
	folders, ok := errors.AsType[*AmbiguousError](second(p.tryOpen("x.tar")))
	if !ok || folders.Meant != "all/train" {
		t.Fatalf("%+v", folders)
	}
	for in, from := range map[string]string{"x.tar/all/train": "d/train", "x.tar/all/val/": "d/val"} {
		if got, want := p.open(in), p.open(from); !slices.Equal(contentsOf(t, got), contentsOf(t, want)) || got.Digest != want.Digest {
			t.Errorf("%s is not %s", in, from)
		}
	}
	p.refused(ErrEmpty, "", "x.tar/all/test")
}

func second(_ *Dataset, err error) error { return err }

// TestLabelColumn: the named Parquet column gives the labels, with the classes from Hugging Face's
// metadata. An index made with another label column is not used.
func TestLabelColumn(t *testing.T) {
	type row struct {
		Image  []byte `parquet:"img"`
		Fine   int64  `parquet:"fine_label"`
		Coarse int64  `parquet:"coarse_label"`
	}
	const note = `{"info":{"features":{"img":{"_type":"Image"},"coarse_label":{"_type":"ClassLabel","names":["fish","tree"]}}}}`
	p := newPlace(t)
	p.mkdir("s")
	photo := []byte(image("jpeg", 10, 20, 1))
	if err := parquet.WriteFile(p.path("s/0.parquet"), []row{{photo, 7, 1}, {photo, 3, 0}},
		parquet.KeyValueMetadata("huggingface", note)); err != nil {
		t.Fatal(err)
	}
	p.write("one.txt", "s/0.parquet")
	for _, name := range []string{"s", "s/0.parquet", "s/*.parquet", "one.txt"} {
		for column, want := range map[string][]int{"fine_label": {7, 3}, "coarse_label": {1, 0}} {
			d := p.open(name, func(o *Options) { o.LabelColumn = column })
			if !slices.Equal(labels(d), want) || len(d.Classes) > 0 != (column == "coarse_label") {
				t.Errorf("%s, %s: %v, %v", name, column, labels(d), d.Classes)
			}
		}
		p.refused(ErrArchive, "", name, func(o *Options) { o.LabelColumn = "missing" })
		if d := p.open(name, func(o *Options) { o.LabelColumn = archive.NoLabel }); d.Report.MaxLabel >= 0 || d.Report.Numbers != nil {
			t.Errorf("%s, without labels: %+v", name, d.Report)
		}
	}
	shard, err := os.ReadFile("../archive/testdata/jpeg.mds")
	testkit.Must(t, err)
	p.write("x.mds", string(shard))
	_, err = p.tryOpen("x.mds", func(o *Options) { o.LabelColumn = "weight" })
	if !errors.Is(err, ErrArchive) || !strings.Contains(err.Error(), `"weight" holds labels`) {
		t.Error(err)
	}
	if r := p.open("x.mds", func(o *Options) { o.LabelColumn = archive.NoLabel }).Report; r.MaxLabel >= 0 || r.Numbers != nil {
		t.Errorf("an MDS shard without labels: %+v", r)
	}
	p.images("d/a/1.jpg")
	p.pack("d.tar", "", "d/a/1.jpg")
	for _, name := range []string{"d", "d.tar"} {
		_, err := p.tryOpen(name, func(o *Options) { o.LabelColumn = "label" })
		if _, flag := errors.AsType[*option.Error](err); !flag {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEmptyShard: a Parquet file without rows adds nothing to the other files, whatever the types
// of its columns. Alone, it is a dataset without images.
func TestEmptyShard(t *testing.T) {
	type untyped struct {
		Image *int32 `parquet:"image,optional"`
	}
	p := newPlace(t)
	p.mkdir("s")
	p.mkdir("only")
	photo := []byte(image("jpeg", 10, 20, 1))
	rows := []rowImage{{photo, 0}, {photo, 1}}
	for name, err := range map[string]error{
		"0.parquet": parquet.WriteFile(p.path("s/0.parquet"), []untyped{}),
		"1.parquet": parquet.WriteFile(p.path("s/1.parquet"), []rowImage{}),
		"2.parquet": parquet.WriteFile(p.path("s/2.parquet"), rows),
		"only":      parquet.WriteFile(p.path("only/0.parquet"), []untyped{}),
	} {
		if err != nil {
			t.Fatal(name, err)
		}
	}
	if d := p.open("s"); d.Len() != 2 {
		t.Errorf("%d samples", d.Len())
	}
	for _, name := range []string{"only", "s/1.parquet", "s/[01].parquet"} {
		p.refused(ErrEmpty, "", name)
	}
}

// TestArchivesSayMore: the report tells users what they should know about archives, even if it
// comes from an index.
func TestArchivesSayMore(t *testing.T) {
	type row struct {
		Image  []byte `parquet:"img"`
		Fine   int64  `parquet:"fine"`
		Coarse int32  `parquet:"coarse"`
		Text   string `parquet:"text"`
		Height int32  `parquet:"height"`
		Width  int64  `parquet:"width"`
	}
	p := newPlace(t)
	p.mkdir("s")
	testkit.Must(t, parquet.WriteFile(p.path("s/0.parquet"), []row{{[]byte(image("jpeg", 10, 20, 1)), 7, 1, "", 10, 20}}))
	p.images("d/a/1.jpg")
	p.pack("d.tar", "", "d/a/1.jpg")
	whole, err := os.ReadFile(p.path("d.tar"))
	testkit.Must(t, err)
	members := (len(strings.TrimRight(string(whole), "\x00")) + 511) &^ 511
	p.write("cut.tar", string(whole[:members]))
	p.write("both.txt", "s\nd.tar\ncut.tar")
	p.settle()
	for name, want := range map[string]Report{
		"s": {Numbers: []string{"coarse", "fine"}}, "d.tar": {}, "cut.tar": {Unended: []string{"cut.tar"}},
		"both.txt": {Numbers: []string{"coarse", "fine"}, Unended: []string{"cut.tar"}},
	} {
		for _, how := range []string{"searched", "from the index"} {
			if r := p.open(name).Report; !slices.Equal(r.Numbers, want.Numbers) || !slices.Equal(r.Unended, want.Unended) || how == "from the index" && r.Scanned > 0 {
				t.Errorf("%s, %s: %+v", name, how, r)
			}
		}
	}
	if r := p.open("s", func(o *Options) { o.LabelColumn = "fine" }).Report; r.Numbers != nil {
		t.Errorf("with labels: %v", r.Numbers)
	}
}

// TestChecksumsOfArchives: an archive's checksum reveals damage to a stored image, unless checking
// is turned off.
func TestChecksumsOfArchives(t *testing.T) {
	p := newPlace(t)
	var z bytes.Buffer
	w := zip.NewWriter(&z)
	for _, name := range []string{"a/1.jpg", "a/2.jpg"} {
		member, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err == nil {
			_, err = io.WriteString(member, image("jpeg", 10, 20, 1)+strings.Repeat("more", HeadBytes))
		}
		testkit.Must(t, err)
	}
	testkit.Must(t, w.Close())
	p.write("x.zip", z.String())
	records, err := os.ReadFile("../archive/testdata/imagenet.tfrecord-00000-of-00001")
	testkit.Must(t, err)
	p.write("x.tfrecord", string(records))
	for _, name := range []string{"x.zip", "x.tfrecord"} {
		p.settle()
		d := p.open(name)
		testkit.Must(t, loadError(d, 0))
		data, err := os.ReadFile(p.path(name))
		testkit.Must(t, err)
		at := d.table.members[0]
		data[at.Offset+at.Length-9] ^= 1
		p.write(name, string(data))
		p.settle()
		if err := loadError(p.open(name), 0); !errors.Is(err, archive.ErrBad) || fault.Of(err) != fault.File || !strings.Contains(err.Error(), "checksum") {
			t.Errorf("%s: %v", name, err)
		}
		beginning := func([]byte, int64) (from, to int64, ok bool) { return 0, HeadBytes, true }
		if _, _, _, err := p.open(name).LoadPart(context.Background(), 0, 0, nil, grow, beginning, HeadBytes+1); !errors.Is(err, archive.ErrBad) {
			t.Errorf("%s, of which the beginning is wanted: %v", name, err)
		}
		if err := loadError(p.open(name), 1); err != nil {
			t.Errorf("%s, beside it: %v", name, err)
		}
		if err := loadError(p.open(name, func(o *Options) { o.Storage.Unchecked = true }), 0); err != nil {
			t.Errorf("%s, unchecked: %v", name, err)
		}
	}
}
