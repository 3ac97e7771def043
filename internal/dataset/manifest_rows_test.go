package dataset

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/batchfs/batchfs/internal/testkit"
)

// TestRowsOfHostileParquet: columns other than paths are also checked before they are read.
func TestRowsOfHostileParquet(t *testing.T) {
	type row struct {
		Path string `parquet:"path"`
		Text string `parquet:"text"`
	}
	type halves struct {
		Path string  `parquet:"path"`
		Half [2]byte `parquet:"half"`
	}
	ofHalves := new(bytes.Buffer)
	testkit.Must(t, parquet.Write(ofHalves, []halves{{"a.png", [2]byte{0, 60}}}))
	written := func(codec parquet.WriterOption) *bytes.Buffer {
		var data bytes.Buffer
		testkit.Must(t, parquet.Write(&data, []row{{"a.png", "a cat"}}, codec))
		return &data
	}
	for _, test := range []struct {
		data *bytes.Buffer
		want string
	}{
		{written(parquet.Compression(&parquet.Zstd)), ""},
		{written(parquet.Compression(&parquet.Lz4Raw)), "write it with snappy or zstd"},
		{ofHalves, `"half" is float16`},
	} {
		path := filepath.Join(t.TempDir(), "m.parquet")
		testkit.Must(t, os.WriteFile(path, test.data.Bytes(), 0o644))
		r, err := FindRows(t.Context(), path, Options{})
		testkit.Must(t, err)
		n := 0
		err = r.Each(t.Context(), nil, nil, func(*Row) error { n++; return nil })
		if test.want == "" && (err != nil || n != 1) || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || n > 0) {
			t.Errorf("%d rows: %v", n, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A typed is a node of another type.
type typed struct {
	parquet.Node
	is parquet.Type
}

func (t typed) Type() parquet.Type { return t.is }

// TestValuesOfColumns: values of every type come out as other programs read them.
func TestValuesOfColumns(t *testing.T) {
	number := parquet.Leaf(parquet.Int64Type)
	old := typed{parquet.Group{"array": parquet.Repeated(number)}, parquet.List(number).Type()}
	root := parquet.Group{
		"half":     parquet.List(parquet.Optional(parquet.Leaf(parquet.DoubleType))),
		"map":      parquet.Map(parquet.Int(32), parquet.List(parquet.Group{"x": parquet.Uint(64)})),
		"old":      parquet.Optional(old),
		"path":     parquet.String(),
		"raw":      parquet.Optional(parquet.JSON()),
		"some":     parquet.Group{"list": parquet.List(number)},
		"text":     parquet.Optional(parquet.Group{"list": parquet.Optional(parquet.String())}),
		"unsigned": parquet.Optional(parquet.Uint(64)),
	}
	var data bytes.Buffer
	w := parquet.NewWriter(&data, parquet.NewSchema("m", root))
	real := func(v float64) parquet.Value { return parquet.ValueOf(v) }
	large, small, null := parquet.ValueOf(uint64(1<<63+5)), parquet.ValueOf(int64(7)), parquet.Value{}
	_, err := w.WriteRows([]parquet.Row{{
		real(1.5).Level(0, 2, 0), real(-0x1p-24).Level(1, 2, 0), real(-65504).Level(1, 2, 0), real(math.NaN()).Level(1, 2, 0), null.Level(1, 1, 0),
		parquet.ValueOf(int32(65)).Level(0, 1, 1), parquet.ValueOf(int32(-1)).Level(1, 1, 1),
		large.Level(0, 2, 2), large.Level(2, 2, 2), null.Level(1, 1, 2),
		small.Level(0, 2, 3), small.Level(1, 2, 3), parquet.ValueOf("a.png").Level(0, 0, 4),
		parquet.ValueOf(`{"b": [9007199254740993, 1.50], "a": 1}`).Level(0, 1, 5),
		small.Level(0, 1, 6), parquet.ValueOf("a cat").Level(0, 2, 7), large.Level(0, 1, 8),
	}, {
		null.Level(0, 0, 0), null.Level(0, 0, 1), null.Level(0, 0, 2), null.Level(0, 1, 3), parquet.ValueOf("b.png").Level(0, 0, 4),
		null.Level(0, 0, 5), null.Level(0, 0, 6), null.Level(0, 1, 7), null.Level(0, 0, 8),
	}})
	path := filepath.Join(t.TempDir(), "m.parquet")
	testkit.Must(t, cmp.Or(err, w.Close(), os.WriteFile(path, data.Bytes(), 0o644)))
	r, err := FindRows(t.Context(), path, Options{})
	testkit.Must(t, err)
	defer r.Close()
	var rows []string
	err = r.Each(t.Context(), nil, nil, func(r *Row) error {
		rows = append(rows, fmt.Sprint(r.Columns))
		return nil
	})
	want := []string{
		`map[half:[1.5,-5.960464477539063e-8,-65504,null,null] map:{"key_value":[{"key":65,"value":[{"x":9223372036854775813},{"x":9223372036854775813}]},{"key":-1,"value":[]}]} ` +
			`old:[7,7] raw:{"b":[9007199254740993,1.50],"a":1} some:{"list":[7]} text:{"list":"a cat"} unsigned:9223372036854775813]`,
		`map[half:[] map:{"key_value":[]} old:[] raw: some:{"list":[]} text:{"list":null} unsigned:]`,
	}
	if differ := gocmp.Diff(want, rows); err != nil || differ != "" {
		t.Errorf("%v, %s", err, differ)
	}
}

// TestColumnsThatUnpackToFarMore: a column that unpacks to more than text plausibly does is not
// read.
func TestColumnsThatUnpackToFarMore(t *testing.T) {
	var data bytes.Buffer
	testkit.Must(t, parquet.Write(&data, []struct{ Text string }{{"a cat"}}))
	file, err := parquet.OpenFile(bytes.NewReader(data.Bytes()), int64(data.Len()))
	testkit.Must(t, err)
	read := []*column{{leaves: leavesOf(file.Root().Column("Text"))}}
	column := &file.Metadata().RowGroups[0].Columns[0].MetaData
	for size, want := range map[int64]string{mostUnpacked: "", mostUnpacked + 1: `column "Text": `} {
		column.TotalUncompressedSize = size
		if err := checkChunks(file, read); err == nil != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// TestRowsOfWhatHasNone: that there are no columns is left to Open, whatever column is named.
func TestRowsOfWhatHasNone(t *testing.T) {
	p := newPlace(t)
	p.images("d/a/1.jpg")
	p.mkdir("s")
	p.pack("s/0.tar", "", "d/a/1.jpg")
	_, how := p.serve()
	o := p.options()
	how(&o)
	o.LabelColumn = "kind"
	for _, path := range []string{"s3://data/s", "s3://data/d", p.path("s"), p.path("d")} {
		if r, err := FindRows(t.Context(), path, o); r != nil || err != nil {
			t.Errorf("%s: %v, %v", path, r, err)
		}
	}
}

// TestRowsProgress: how far the rows are is told while they are read, and all of it in the end.
func TestRowsProgress(t *testing.T) {
	type row struct {
		Path string `parquet:"path"`
		Text string `parquet:"text"`
	}
	type packed struct {
		Image []byte `parquet:"image"`
		Text  string `parquet:"text"`
	}
	dir := t.TempDir()
	var rows []row
	var images []packed
	text := []byte("path,text\n")
	for k := range 5000 {
		rows = append(rows, row{fmt.Sprint(k, ".png"), strings.Repeat(fmt.Sprint(k), 200)})
		images = append(images, packed{[]byte("\xff\xd8\xff"), rows[k].Text})
		text = fmt.Appendf(text, "%s,%s\n", rows[k].Path, rows[k].Text)
	}
	err := cmp.Or(parquet.WriteFile(dir+"/m.parquet", rows), parquet.WriteFile(dir+"/packed.parquet", images), os.WriteFile(dir+"/m.csv", text, 0o644))
	testkit.Must(t, err)
	for _, name := range []string{"m.csv", "m.parquet", "packed.parquet"} {
		r, err := FindRows(t.Context(), dir+"/"+name, Options{})
		testkit.Must(t, err)
		if r.Packed {
			err = r.Look(t.Context())
		}
		var done, told int64
		progress := func(more int64) { done, told = done+more, told+1 }
		err = cmp.Or(err, r.Each(t.Context(), func(string) bool { return true }, progress, func(*Row) error { return nil }))
		if err != nil || done != r.Bytes() || told < 3 {
			t.Errorf("%s: of %d bytes it told of %d, %d times: %v", name, r.Bytes(), done, told, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
