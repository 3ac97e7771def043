package dataset

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
)

// row is what a manifest test expects of a sample.
type row struct {
	Path   string
	Label  int
	Height int
	Width  int
	Format string
}

func rowsOf(d *Dataset) []row {
	var all []row
	for i := range d.Len() {
		h, w := d.Size(i, false)
		all = append(all, row{d.Path(i), d.Label(i), h, w, d.Format(i)})
	}
	return all
}

func writeParquet[R any](t testing.TB, path string, rows []R) {
	t.Helper()
	testkit.Must(t, parquet.WriteFile(path, rows, parquet.MaxRowsPerRowGroup(2)))
}

func TestManifestKindsAgree(t *testing.T) {
	p := newPlace(t)
	p.images("b/1.jpg", "a/2.jpg")
	p.write("m.csv", "\xEF\xBB\xBFlabel,path , height,width,format,more\r\n"+
		" dog ,b/1.jpg,,,,x\r\n"+
		"cat,./a/../a/2.jpg,,20,jpeg,\r\n"+
		"\r\n"+
		"\"new\nline\",\"c, \"\"d\"\".png\",5,6,PNG,\r\n"+
		",gone.jpg,7,8,jpg,\r\n")
	p.write("m.jsonl", "\xEF\xBB\xBF"+`{"path":"b/1.jpg","label":"dog","more":[1]}
{"path":"./a/../a/2.jpg","label":"cat","height":null,"width":20,"format":"jpeg"}

{"path":"c, \"d\".png","label":"new\nline","height":5,"width":6.0,"format":"PNG"}
{"path":"gone.jpg","height":7,"width":8,"format":"jpg","label":null}`)
	type record struct {
		More   int32   `parquet:"more"`
		Width  *int32  `parquet:"width"`
		Height float64 `parquet:"height"`
		Label  *string `parquet:"label,dict"`
		Format string  `parquet:"format,optional"`
		Path   string  `parquet:"path,delta"`
	}
	text := func(s string) *string { return &s }
	number := func(n int32) *int32 { return &n }
	writeParquet(t, p.path("m.parquet"), []record{
		{Path: "b/1.jpg", Label: text("dog"), Height: math.NaN()},
		{Path: "./a/../a/2.jpg", Label: text("cat"), Height: math.NaN(), Width: number(20), Format: "jpeg"},
		{Path: `c, "d".png`, Label: text("new\nline"), Height: 5, Width: number(6), Format: "PNG"},
		{Path: "gone.jpg", Height: 7, Width: number(8), Format: "jpg"},
	})
	want := []row{
		{"b/1.jpg", 1, 10, 20, "jpeg"},
		{"a/2.jpg", 0, 10, 20, "jpeg"},
		{`c, "d".png`, 2, 5, 6, "png"},
		{"gone.jpg", -1, 7, 8, "jpeg"},
	}
	var digests []string
	for _, m := range []string{"m.csv", "m.jsonl", "m.parquet"} {
		d := p.open(m)
		equal(t, want, rowsOf(d), "%s", m)
		equal(t, []string{"cat", "dog", "new\nline"}, d.Classes, "%s classes", m)
		if n := p.probes(); n != 2 {
			t.Errorf("%s: %d headers read; two rows give none, two give all", m, n)
		}
		if d.Root != p.open("").Root {
			t.Errorf("%s: root %q", m, d.Root)
		}
		p.probes()
		digests = append(digests, d.Digest)
	}
	if digests[0] != digests[1] || digests[1] != digests[2] {
		t.Errorf("digests differ: %q", digests)
	}
}

// TestManifestWithoutLabels: the columns that may hold labels are known, whatever the kind of the
// manifest is.
func TestManifestWithoutLabels(t *testing.T) {
	type record struct {
		Path   string  `parquet:"path"`
		Class  *int32  `parquet:"class,optional"`
		Target int64   `parquet:"target"`
		Score  float64 `parquet:"score"`
		Height int32   `parquet:"height"`
		Word   string  `parquet:"word"`
	}
	p := newPlace(t)
	p.images("1.jpg", "2.jpg")
	p.write("m.csv", ",path,target , class,score,height,word\n0,1.jpg,7,,1,10,a\n1,2.jpg,8,2.0,0.5,10,3\n")
	p.write("m.jsonl", `{"path":"1.jpg","target":7,"class":null,"score":1,"height":10,"word":"a"}`+"\n"+
		`{"path":"2.jpg","word":"3","height":10,"score":0.5,"class":2.0,"target":8}`)
	two := int32(2)
	writeParquet(t, p.path("m.parquet"), []record{{"1.jpg", nil, 7, 1, 10, "a"}, {"2.jpg", &two, 8, 0.5, 10, "3"}})
	p.settle()
	for _, m := range []string{"m.csv", "m.jsonl", "m.parquet"} {
		for _, how := range []string{"read", "from the index"} {
			equal(t, []string{"class", "target"}, p.open(m).Report.Numbers, "%s, %s", m, how)
		}
		if r := p.open(m, func(o *Options) { o.LabelColumn = "class" }).Report; r.Numbers != nil || r.Unlabeled != 1 {
			t.Errorf("%s, with labels: %+v", m, r)
		}
	}
}

func TestManifestLabels(t *testing.T) {
	type numbered struct {
		Path  string `parquet:"path"`
		Label int64  `parquet:"label"`
	}
	for name, c := range map[string]struct {
		csv     string
		jsonl   string
		parquet []numbered
		labels  []int
		classes []string
	}{
		"none":                    {csv: "path\na\nb\n", labels: []int{-1, -1}},
		"all empty":               {csv: "path,label\na,\nb,\n", labels: []int{-1, -1}},
		"numbers":                 {csv: "path,label\na,7\nb,007\nc,-1\nd,3.0\n", labels: []int{7, 7, -1, 3}},
		"numbers beside words":    {csv: "path,label\na,10\nb,9\nc,x\n", labels: []int{0, 1, 2}, classes: []string{"10", "9", "x"}},
		"numbers by type":         {jsonl: `{"path":"a","label":5}` + "\n" + `{"path":"b","label":2147483647}`, labels: []int{5, 2147483647}},
		"numbers as names":        {jsonl: `{"path":"a","label":"5"}` + "\n" + `{"path":"b","label":"10"}`, labels: []int{1, 0}, classes: []string{"10", "5"}},
		"names in Python's order": {csv: "path,label\na,\xff\nb,\U0001F600\nc,é\n", labels: []int{1, 2, 0}, classes: []string{"é", "\xff", "\U0001F600"}},
		"numbers in Parquet":      {parquet: []numbered{{"a", 3}, {"b", -1}, {"c", 3}}, labels: []int{3, -1, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			manifest := "m.csv"
			switch {
			case c.jsonl != "":
				manifest = "m.jsonl"
				p.write(manifest, c.jsonl)
			case c.parquet != nil:
				manifest = "m.parquet"
				writeParquet(t, p.path(manifest), c.parquet)
			default:
				p.write(manifest, c.csv)
			}
			d := p.open(manifest)
			equal(t, c.labels, labels(d), "labels")
			equal(t, c.classes, d.Classes, "classes")
		})
	}
}

func TestBadManifests(t *testing.T) {
	long := strings.Repeat("x", maxPath+1)
	for _, c := range []struct {
		name, manifest, content, words string
	}{
		{"nothing", "m.csv", "", "no header"},
		{"no path column", "m.csv", "file,label\na,1\n", `line 1: no "path" or "file_name"`},
		{"two path columns", "m.csv", "path,path\na,b\n", `line 1: two columns named "path"`},
		{"too few fields", "m.csv", "path,label\na,1\nb\n", "line 3: wrong number of fields"},
		{"bare quote", "m.csv", "path\na\nb\"c\n", `line 3: bare "`},
		{"quote not closed", "m.csv", "path\n\"a\nb\n", `line 3: extraneous or missing "`},
		{"empty path", "m.csv", "path,label\na,1\n,2\n", "line 3: path is empty"},
		{"line after a quoted newline", "m.csv", "path,label\n\"a\nb\",1\n,2\n", "line 4: path is empty"},
		{"NUL", "m.csv", "path\na\x00b\n", "line 2: path holds a NUL byte"},
		{"too long", "m.csv", "path\n" + long + "\n", "line 2: path is longer than 4095 bytes"},
		{"a directory", "m.csv", "path\na/..\n", `line 2: path "a/.." names a directory`},
		{"absolute", "m.csv", "path\na\n/etc/passwd\n", `line 3: "/etc/passwd": path leaves`},
		{"above", "m.csv", "path\na/../../b\n", `line 2: "a/../../b": path leaves`},
		{"height", "m.csv", "path,height\na,-5\n", `line 2: height "-5" is not a whole number`},
		{"width", "m.csv", "path,width\na,4294967296\n", `line 2: width "4294967296" is not a whole number`},
		{"format", "m.csv", "path,format\na,tiff\n", `line 2: format "tiff" is not one of`},
		{"negative label", "m.csv", "path,label\na,1\nb,-2\n", `line 3: its labels cannot be used: label "-2"`},
		{"large label", "m.csv", "path,label\na,1\nb,2147483648\n", `line 3: its labels cannot be used: label "2147483648"`},
		{"no JSON", "m.jsonl", `{"path":"a"}` + "\n{path:a}\n", "line 2: must be a JSON object: invalid character"},
		{"no object", "m.jsonl", "\n\n[1]\n", "line 3: must be a JSON object"},
		{"a number", "m.jsonl", "12", "line 1: must be a JSON object"},
		{"two objects", "m.jsonl", `{"path":"a"} {"path":"b"}`, "line 1: must be a JSON object: invalid character"},
		{"no path", "m.jsonl", `{"path":"a"}` + "\n" + `{"label":1}`, `line 2: no "path" or "file_name"`},
		{"path is a number", "m.jsonl", `{"path":1}`, `line 1: "path" must be a string`},
		{"label is a list", "m.jsonl", `{"path":"a","label":[1]}`, "line 1: its labels cannot be used: label [1] is neither"},
		{"label is true", "m.jsonl", `{"path":"a","label":true}`, "line 1: its labels cannot be used: label true is neither"},
		{"label is a fraction", "m.jsonl", `{"path":"a","label":1.5}`, `line 1: its labels cannot be used: label "1.5"`},
		{"CSV label is a fraction", "m.csv", "path,label\na,0.5\nb,1.5\n", `line 2: its labels cannot be used: label "0.5" is neither a whole number nor a class name`},
		{"a fraction among names", "m.csv", "path,label\na,cat\nb,1e-3\n", `line 3: its labels cannot be used: label "1e-3" is neither`},
		{"no number", "m.csv", "path,label\na,1\nb,nan\n", `line 3: its labels cannot be used: label "nan" is neither`},
		{"CSV label is a list", "m.csv", "path,label\na,\"[1, 2]\"\n", `line 2: its labels cannot be used: label "[1, 2]" is neither`},
		{"labels of two kinds", "m.jsonl", `{"path":"a","label":1}` + "\n" + `{"path":"b","label":"x"}`, "line 2: label: some labels are numbers, others are names"},
		{"height is text", "m.jsonl", `{"path":"a","height":"5"}`, "line 1: height"},
		{"not UTF-8", "m.jsonl", "{\"path\":\"a\"}\n{\"path\":\"\xff\"}\n", "line 2: not UTF-8"},
		{"endless line", "m.jsonl", `{"path":"a"}` + "\n" + strings.Repeat(" ", maxLine+1), "line 2: longer than"},
		{"no Parquet", "m.parquet", "PAR1 is only the beginning", "no Parquet file, or it is cut short"},
		{"tiny", "m.parquet", "PAR1", "no Parquet file, or it is cut short"},
		{"footer longer than the file", "m.parquet", "PAR1....\xff\xff\xff\x7fPAR1", "no Parquet file, or it is cut short"},
		{"footer of rubbish", "m.parquet", "PAR1....\x08\x00\x00\x00PAR1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			p.write(c.manifest, c.content)
			_, err := p.tryOpen(c.manifest)
			if !errors.Is(err, ErrManifest) {
				t.Fatalf("error %v", err)
			}
			if strings.Contains(err.Error(), "dataset.") || strings.Contains(err.Error(), "Go ") {
				t.Errorf("error %q speaks Go", err)
			}
			if !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), c.manifest) {
				t.Errorf("error %q does not say %q", err, c.words)
			}
			if left := strings.Contains(c.words, "leaves"); errors.Is(err, ErrOutside) != left {
				t.Errorf("ErrOutside in %q: %t", err, !left)
			}
		})
	}
}

func TestBadParquetManifests(t *testing.T) {
	type noPath struct {
		File string `parquet:"file"`
	}
	type numberPath struct {
		Path int64 `parquet:"path"`
	}
	type listPath struct {
		Path []string `parquet:"path"`
	}
	type nestedLabel struct {
		Path  string   `parquet:"path"`
		Label []string `parquet:"label,list"`
	}
	type nestedHeight struct {
		Path   string  `parquet:"path"`
		Height []int32 `parquet:"height,list"`
	}
	type boolLabel struct {
		Path  string `parquet:"path"`
		Label bool   `parquet:"label"`
	}
	type plain struct {
		Path string `parquet:"path"`
	}
	for name, c := range map[string]struct {
		write func(t *testing.T, path string)
		words string
	}{
		"no path": {func(t *testing.T, p string) { writeParquet(t, p, []noPath{{"a"}}) }, `no "path" or "file_name"`},
		"number":  {func(t *testing.T, p string) { writeParquet(t, p, []numberPath{{1}}) }, `column "path" must be text`},
		"list":    {func(t *testing.T, p string) { writeParquet(t, p, []listPath{{[]string{"a"}}}) }, `column "path" must be text`},
		"labels": {func(t *testing.T, p string) { writeParquet(t, p, []nestedLabel{{"a", []string{"x"}}}) },
			`column "label" must be text or numbers`},
		"heights": {func(t *testing.T, p string) { writeParquet(t, p, []nestedHeight{{"a", []int32{1}}}) },
			`column "height" must be numbers`},
		"bool": {func(t *testing.T, p string) { writeParquet(t, p, []boolLabel{{"a", true}}) }, `row 1: column "label": neither text nor a number`},
		"LZ4": {func(t *testing.T, p string) {
			testkit.Must(t, parquet.WriteFile(p, []plain{{"a"}}, parquet.Compression(&parquet.Lz4Raw)))
		}, `column "path": compressed with LZ4_RAW`},
		"levels": {func(t *testing.T, p string) { // in the header of a page, too many for the library's stack
			const n = 20 << 20
			whole := append([]byte("PAR1"), bytes.Repeat([]byte{0x1c}, n)...)
			column := slices.Concat([]byte("\x26\x08\x1c\x15\x0c\x19\x15\x00\x19\x18\x04path\x15\x00\x16\x02\x16"), // 1 value
				binary.AppendVarint(nil, n), []byte{0x16}, binary.AppendVarint(nil, n), []byte("\x26\x08\x00\x00"))
			footer := slices.Concat([]byte("\x15\x02\x19\x2c\x48\x01r\x15\x02\x00\x15\x0c\x25\x00\x18\x04path\x00\x16\x02\x19\x1c\x19\x1c"),
				column, []byte("\x16\x02\x16\x02\x00\x00"))
			whole = append(binary.LittleEndian.AppendUint32(append(whole, footer...), uint32(len(footer))), "PAR1"...)
			testkit.Must(t, os.WriteFile(p, whole, 0o644))
		}, `column "path": damaged`},
		"row named": {func(t *testing.T, p string) { writeParquet(t, p, []plain{{"a"}, {"b"}, {"c"}, {""}}) }, "row 4: path is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			c.write(t, p.path("m.parquet"))
			p.refused(ErrManifest, c.words, "m.parquet")
		})
	}
}

// TestDamagedParquetManifest: opening returns, whatever a damaged file contains.
func TestDamagedParquetManifest(t *testing.T) {
	type record struct {
		Path  string `parquet:"path,dict"`
		Label string `parquet:"label,dict"`
		Width int32  `parquet:"width"`
	}
	p := newPlace(t)
	var rows []record
	for i := range 50 {
		rows = append(rows, record{fmt.Sprintf("%d.jpg", i), fmt.Sprint("c", i%3), int32(i)})
	}
	writeParquet(t, p.path("m.parquet"), rows)
	good, err := os.ReadFile(p.path("m.parquet"))
	testkit.Must(t, err)
	o := p.options()
	o.CacheDir = ""
	failed := 0
	for k := 0; k < len(good); k += 1 + len(good)/400 {
		bad := append([]byte(nil), good...)
		bad[k] ^= 0x5a
		p.write("m.parquet", string(bad))
		if d, err := Open(context.Background(), p.path("m.parquet"), o); err == nil {
			d.Close()
		} else {
			failed++
		}
	}
	if failed == 0 {
		t.Error("no damage was noticed")
	}
}

func TestAllowOutside(t *testing.T) {
	p := newPlace(t)
	p.images("in/1.jpg", "out/2.jpg", "out/3.jpg")
	p.write("in/m.csv", "path\n1.jpg\n../out/2.jpg\n"+p.path("out/3.jpg")+"\n")
	p.settle()
	allow := func(o *Options) { o.AllowOutside = true }
	p.refused(ErrOutside, "", "in/m.csv")
	d := p.open("in/m.csv", allow)
	equal(t, []string{"1.jpg", "../out/2.jpg", p.path("out/3.jpg")}, paths(d), "")
	for i := range d.Len() {
		if _, err := d.Read(i, make([]byte, 100), nil); err != nil {
			t.Error(err)
		}
	}
	p.refused(ErrOutside, "", "in/m.csv")
	p.probes()
	p.open("in/m.csv", allow)
	if p.probes() != 0 {
		t.Error("the index was not used")
	}
}

func TestManifestIsNotConfinedByLinks(t *testing.T) {
	p := newPlace(t)
	p.images("real/1.jpg")
	p.write("lists/m.csv", "path\nphotos/1.jpg\n")
	p.link("../real", "lists/photos")
	p.link("lists/m.csv", "m.csv") // relative to the link's directory
	d := p.open("lists/m.csv")
	if d.Problem(0) != "" {
		t.Errorf("problem %q", d.Problem(0))
	}
	if d := p.open("m.csv"); d.Problem(0) == "" || d.Root != filepath.Dir(p.path("m.csv")) {
		t.Errorf("a linked manifest: root %q, problem %q", d.Root, d.Problem(0))
	}
}

func TestGivenHeaderNeedsNoFile(t *testing.T) {
	p := newPlace(t)
	p.images("a.jpg", "b.jpg")
	p.write("m.csv", "path,height,width,format\na.jpg,10,20,jpeg\nb.jpg,10,20,jpeg\ngone.jpg,1,2,png\n")
	p.settle()
	for _, round := range []string{"listed", "from the index"} {
		d := p.open("m.csv")
		if p.probes() != 0 {
			t.Errorf("%s: headers were read", round)
		}
		if d.Stat(0).Known() || d.Stat(0).Size != 0 {
			t.Errorf("%s: identity %+v of a file nobody looked at", round, d.Stat(0))
		}
		digest := d.Digest
		_, id, err := d.Load(t.Context(), 0, nil, grow)
		testkit.Must(t, err)
		now, err := d.Check(0)
		if !id.Known() || id != now || id != d.Stat(0) || err != nil || d.Digest != digest {
			t.Errorf("%s: identity %+v after a read", round, d.Stat(0))
		}
		p.write("a.jpg", image("jpeg", 10, 20, 1)+round) // a different length each time
		if _, err := d.Read(0, nil, grow); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: changed after the first read: %v", round, err)
		}
		if _, id, err := d.Load(t.Context(), 2, nil, grow); !errors.Is(err, ErrMissing) || id.Known() {
			t.Errorf("%s: %+v, %v", round, id, err)
		}
	}
}

// TestNamesOfPathsInJSON: path counts before file_name, and of a key that is there twice the last
// value does.
func TestNamesOfPathsInJSON(t *testing.T) {
	p := newPlace(t)
	p.images("a.jpg")
	for _, row := range []string{
		`{"file_name":"x","path":"a.jpg"}`, `{"path":"a.jpg","file_name":"x"}`, `{"path":null,"file_name":"a.jpg"}`,
		`{"path":"x","path":"a.jpg"}`, `{"file_name":"x","file_name":"a.jpg"}`, `{"Path":"x","path":"a.jpg"}`,
	} {
		p.write("m.jsonl", row)
		equal(t, []string{"a.jpg"}, paths(p.open("m.jsonl")), "%s", row)
	}
}

// TestManifestThatCannotBeRead: the error names the manifest, which is not said to be bad.
func TestManifestThatCannotBeRead(t *testing.T) {
	p := newPlace(t)
	p.write("m.csv", "path,height,width,format\na.jpg,1,2,jpeg\n")
	for _, call := range []string{"look", "open", "stat", "read"} {
		p.how.system = failing(call, unix.EACCES)
		_, err := p.tryOpen("m.csv")
		if !errors.Is(err, unix.EACCES) || errors.Is(err, ErrManifest) || !strings.Contains(err.Error(), p.path("m.csv")) {
			t.Errorf("%s fails: %v", call, err)
		}
	}
}

func FuzzParquetManifest(f *testing.F) {
	type line struct {
		Path  string  `parquet:"path"`
		Label *string `parquet:"label,dict"`
		Width float64 `parquet:"width"`
	}
	p := newPlace(f)
	for _, codec := range []parquet.WriterOption{parquet.Compression(&parquet.Snappy), parquet.Compression(&parquet.Zstd), parquet.DataPageVersion(1)} {
		name := "c"
		testkit.Must(f, parquet.WriteFile(p.path("m"), []line{{"a", &name, 1}, {"b", nil, 2}}, codec))
		data, err := os.ReadFile(p.path("m"))
		testkit.Must(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := os.CreateTemp(t.TempDir(), "")
		testkit.Must(t, err)
		defer file.Close()
		file.Write(data)
		_ = readParquet(io.NewSectionReader(file, 0, int64(len(data))), new(record), func() error { return nil })
	})
}
