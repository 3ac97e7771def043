package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfs/batchfs/internal/testkit"
)

// tarOf writes a tar of files: name, contents, name, contents...
func tarOf(t testing.TB, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		testkit.Must(t, w.WriteHeader(&tar.Header{Name: files[i], Size: int64(len(files[i+1])), Mode: 0o644}))
		if _, err := w.Write([]byte(files[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Must(t, w.Close())
	return b.Bytes()
}

// contents are the samples of an archive as name=bytes.
func contents(t testing.TB, b []byte, c *Contents) []string {
	t.Helper()
	var all []string
	for _, s := range c.Samples {
		all = append(all, s.Name+"="+string(sample(t, b, s)))
	}
	return all
}

// TestTar: the names of the files decide what is a sample, and what kind of archive it is.
func TestTar(t *testing.T) {
	for what, c := range map[string]struct {
		archive []byte
		kind    string
		want    []string
	}{
		"the last of one name counts":        {tarOf(t, "c/a.jpg", "1", "c/b.jpg", "2", "./c//a.jpg", "3"), "tar", []string{"c/b.jpg=2", "c/a.jpg=3"}},
		"two tars":                           {append(tarOf(t, "a.jpg", "1"), tarOf(t, "b.jpg", "2")...), "tar", []string{"a.jpg=1", "b.jpg=2"}},
		"garbage at the end":                 {append(tarOf(t, "a.jpg", "1"), bytes.Repeat([]byte("garbage"), 500)...), "tar", []string{"a.jpg=1"}},
		"no end":                             {tarOf(t, "a.jpg", "1")[:1024], "tar", []string{"a.jpg=1"}},
		"nothing":                            {nil, "tar", nil},
		"zeros":                              {make([]byte, 10240), "tar", nil},
		"absolute names":                     {tarOf(t, "/c/a.jpg", "1"), "tar", []string{"c/a.jpg=1"}},
		"files beside images in directories": {tarOf(t, "c/a.jpg", "1", "c/a.xml", "x"), "tar", []string{"c/a.jpg=1"}},
		"labels beside them":                 {tarOf(t, "c/a.jpg", "1", "c/a.cls", "0"), "webdataset", []string{"c/a.jpg=1"}},
		"files beside images":                {tarOf(t, "b.jpg", "1", "b.txt", "x", "a.jpg", "2"), "webdataset", []string{"b.jpg=1", "a.jpg=2"}},
		"a key that comes again": {tarOf(t, "a.jpg", "1", "a.cls", "0", "b.jpg", "2", "b.cls", "1", "a.jpg", "3", "a.cls", "2"),
			"webdataset", []string{"000000000=1", "000000001=2", "000000002=3"}},
		"names with dots":             {tarOf(t, "c/a.1.jpg", "1", "c/a.2.jpg", "2"), "tar", []string{"c/a.1.jpg=1", "c/a.2.jpg=2"}},
		"a name like compressed data": {tarOf(t, "BZh91.jpg", "1"), "tar", []string{"BZh91.jpg=1"}},
		"a tar in a tar in a tar":     {tarOf(t, "c.tar", string(tarOf(t, "a.jpg", "1", "d.tar", "x"))), "tar", []string{"c/a.jpg=1"}},
	} {
		got, err := scan("x.tar", c.archive, Options{})
		if err != nil || got.Kind != c.kind || got.Ordered != (c.kind == "webdataset") {
			t.Errorf("%s: %+v, %v", what, got, err)
			continue
		}
		if diff := cmp.Diff(c.want, contents(t, c.archive, got)); diff != "" {
			t.Errorf("%s:\n%s", what, diff)
		}
	}
}

// TestTarWithoutEnd: a tar that may have been cut off between two members is distinguished from one
// that has its end, or most of it.
func TestTarWithoutEnd(t *testing.T) {
	zeros := string(make([]byte, 700)) // they look like the end, but belong to a file
	one, inner := tarOf(t, "c/a.jpg", zeros), tarOf(t, "a.jpg", zeros)
	const members = 512 + 1024
	for what, c := range map[string]struct {
		archive []byte
		unended bool
	}{
		"whole": {one, false}, "padded": {append(bytes.Clone(one), make([]byte, 10<<10)...), false}, "one block": {one[:members+512], false},
		"cut between members": {one[:members], true}, "cut within the padding": {one[:512+900], true},
		"two": {append(bytes.Clone(one[:members]), one...), false}, "two, cut": {append(bytes.Clone(one), one[:members]...), true},
		"cut in a tar": {tarOf(t, "c.tar", string(inner[:members])), true}, "in a tar": {tarOf(t, "c.tar", string(inner)), false},
	} {
		got, err := scan("x.tar", c.archive, Options{})
		if err != nil || got.Unended != c.unended || len(got.Samples) == 0 {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
}

func TestBadTar(t *testing.T) {
	for want, archive := range map[string][]byte{
		"leads out":         tarOf(t, "c/../../a.jpg", "1"),
		"cut short":         tarOf(t, "a.jpg", strings.Repeat("x", 2000))[:1024],
		"more than 100":     tarOf(t, many(150)...),
		"there twice":       tarOf(t, "a.jpg", "1", "a.cls", "0", "a.jpg", "2"),
		"others are names":  tarOf(t, "a.jpg", "1", "a.cls", "0", "b.jpg", "2", "b.cls", "cat"),
		"0.5 is neither":    tarOf(t, "a.jpg", "1", "a.cls", "0.5"),
		"label -2":          tarOf(t, "a.jpg", "1", "a.cls", "-2"),
		"label 2147483648":  tarOf(t, "a.jpg", "1", "a.cls", "2147483648"),
		"larger than":       tarOf(t, "a.jpg", "1", "a.cls", strings.Repeat(" ", maxField+1)),
		`"label" is neith`:  tarOf(t, "a.jpg", "1", "a.json", `{"label": [1, 2]}`),
		"unexpected end":    tarOf(t, "a.jpg", "1", "a.json", `{"label":`),
		"longer than 4096":  tarOf(t, strings.Repeat("x", 5000)+".jpg", "1"),
		"it is compressed":  append([]byte("BZh91AY&SY"), make([]byte, 600)...),
		"unpack it":         append([]byte("\x1f\x8b\x08"), make([]byte, 600)...),
		"invalid tar":       bytes.Repeat([]byte("no tar"), 200),
		"longer than 1024":  tarOf(t, "a.jpg", "1", "a.cls", strings.Repeat("c", 2000)),
		"c.tar: a name is":  tarOf(t, strings.Repeat("d", 4000)+"c.tar", string(tarOf(t, strings.Repeat("x", 200)+".jpg", "1"))),
		"entry 1, at 1536:": append(tarOf(t, "a.jpg", "1")[:1024], bytes.Repeat([]byte("x"), 512)...),
	} {
		if got, err := scan("x.tar", archive, Options{}); !errors.Is(err, ErrBad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v", want, got, err)
		}
	}
}

// TestKindsOfNames: what names say, whatever they are.
func TestKindsOfNames(t *testing.T) {
	for _, c := range []struct {
		name          string
		hidden, image bool
		kind          string
	}{
		{"", false, false, ""}, {".", true, false, "."}, {"a", false, false, ""}, {"a.", false, false, "other"}, {"/", false, false, ""},
		{"a.JPG", false, true, "jpg"}, {".jpg", true, true, "."}, {"a/.b/c.png", true, true, "."}, {"a.b/c", false, false, ""},
		{"__MACOSX", true, false, "."}, {"a/__MACOSX/x.jpg", true, true, "."}, {"a__MACOSX/x.jpg", false, true, "jpg"},
		{"x.tfrecord-00000-of-01024", false, false, "tfrecord"}, {"a.\x00", false, false, "other"}, {"a.verylongone", false, false, "other"},
	} {
		if h, i, k := Hidden(c.name), IsImage(c.name), ExtensionKey(c.name); h != c.hidden || i != c.image || k != c.kind {
			t.Errorf("%q: %v, %v, %q", c.name, h, i, k)
		}
	}
	b := tarOf(t, "c/a.jpg", "1", "__MACOSX/x.jpg", "2", "c/__MACOSX/y.jpg", "3")
	if got, err := scan("x.tar", b, Options{}); err != nil || len(got.Samples) != 1 || got.Folders["__MACOSX"] {
		t.Errorf("%+v, %v", got, err)
	}
}

// many are the files of one sample.
func many(n int) (files []string) {
	for i := range n {
		files = append(files, "a."+strings.Repeat("x", i), "")
	}
	return append(files, "a.jpg", "1")
}

// TestLabels of a WebDataset, with and without a choice.
func TestLabels(t *testing.T) {
	b := tarOf(t, "a.json", `{"label": "cat"}`, "a.cls", "3", "a.jpg", "1")
	if got, err := scan("x.tar", b, Options{}); err != nil || got.Samples[0].Label != 3 || got.Samples[0].Class != "" {
		t.Errorf("a label in two files: %+v, %v", got, err)
	}
	archive := tarOf(t, "a.json", `{"label": null, "class": "cat", "age": 3.0}`, "a.jpg", "1", "a.seg.png", "2", "a.txt", " 7\n",
		"b.JPG", "3", "b.seg.PNG", "4", "b.txt", "-1", "b.json", `{"cls": "dog", "age": 4}`)
	for _, c := range []struct {
		o    Options
		want []string
	}{
		{Options{}, []string{"a.jpg -1 cat", "b.JPG -1 dog"}},
		{Options{Label: "txt", Image: "seg.png"}, []string{"a.seg.png 7 ", "b.seg.PNG -1 "}},
		{Options{Label: "age"}, []string{"a.jpg 3 ", "b.JPG 4 "}},
		{Options{Image: "json"}, []string{"a.json -1 ", "b.json -1 "}},
		{Options{Image: "xml"}, nil},
	} {
		got, err := scan("x.tar", archive, c.o)
		if err != nil {
			t.Errorf("%+v: %v", c.o, err)
			continue
		}
		var all []string
		for _, s := range got.Samples {
			all = append(all, strings.Join([]string{s.Name, label(s), s.Class}, " "))
		}
		if diff := cmp.Diff(c.want, all); diff != "" {
			t.Errorf("%+v:\n%s", c.o, diff)
		}
	}
	if _, err := scan("x.tar", archive, Options{Label: "none"}); err == nil || !strings.Contains(err.Error(), `no sample has a label "none"`) {
		t.Error(err)
	}
	got, err := scan("x.tar", archive, Options{})
	if diff := cmp.Diff(map[string]int{"txt": 2}, got.Ignored); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}
