package dataset

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// TestRowsOfHostileParquet: columns that are not paths are checked before they are read, too.
func TestRowsOfHostileParquet(t *testing.T) {
	type row struct {
		Path string `parquet:"path"`
		Text string `parquet:"text"`
	}
	for _, test := range []struct {
		codec parquet.WriterOption
		want  string
	}{
		{parquet.Compression(&parquet.Zstd), ""}, {parquet.Compression(&parquet.Lz4Raw), "write it with snappy or zstd"},
	} {
		var data bytes.Buffer
		if err := parquet.Write(&data, []row{{"a.png", "a cat"}}, test.codec); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "m.parquet")
		if err := os.WriteFile(path, data.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := FindRows(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		err = r.Each(t.Context(), nil, func(*Row) error { n++; return nil })
		if test.want == "" && (err != nil || n != 1) || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || n > 0) {
			t.Errorf("%d rows: %v", n, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestColumnsThatUnpackToFarMore: a column is not read that unpacks to what no text does.
func TestColumnsThatUnpackToFarMore(t *testing.T) {
	var data bytes.Buffer
	if err := parquet.Write(&data, []struct{ Text string }{{"a cat"}}); err != nil {
		t.Fatal(err)
	}
	file, err := parquet.OpenFile(bytes.NewReader(data.Bytes()), int64(data.Len()))
	if err != nil {
		t.Fatal(err)
	}
	read := []*column{{leaves: leavesOf(file.Root().Column("Text"))}}
	column := &file.Metadata().RowGroups[0].Columns[0].MetaData
	for size, want := range map[int64]string{mostUnpacked: "", mostUnpacked + 1: `column "Text": `} {
		column.TotalUncompressedSize = size
		if err := checkChunks(file, read); err == nil != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}
