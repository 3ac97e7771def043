package archive

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/batchfs/batchfs/internal/testkit"
)

// pageOf is a page with its header, as no writer would write it.
func pageOf(t *testing.T, h format.PageHeader, body string) string {
	t.Helper()
	b, err := thrift.Marshal(&thrift.CompactProtocol{}, h)
	testkit.Must(t, err)
	return string(b) + body
}

func dataV1(n, size int32, encoding format.Encoding) (h format.PageHeader) {
	h.Type, h.CompressedPageSize, h.UncompressedPageSize = format.DataPage, size, size
	h.DataPageHeader.Valid = true
	h.DataPageHeader.V = format.DataPageHeader{NumValues: n, Encoding: encoding, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE}
	return h
}

func dataV2(n, size, levels, repetitions int32) (h format.PageHeader) {
	h.Type, h.CompressedPageSize, h.UncompressedPageSize = format.DataPageV2, size, size
	h.DataPageHeaderV2.Valid = true
	h.DataPageHeaderV2.V = format.DataPageHeaderV2{NumValues: n, NumRows: n, DefinitionLevelsByteLength: levels, RepetitionLevelsByteLength: repetitions}
	return h
}

func dictionary(n, size int32) (h format.PageHeader) {
	h.Type, h.CompressedPageSize, h.UncompressedPageSize = format.DictionaryPage, size, size
	h.DictionaryPageHeader.Valid = true
	h.DictionaryPageHeader.V = format.DictionaryPageHeader{NumValues: n}
	return h
}

// TestPages: values in pages of every sort, and pages that claim absent data.
func TestPages(t *testing.T) {
	const lengths = "\x80\x01\x04\x02\x02\x02\x00\x00\x00\x00" // 1 and 2, as differences
	for what, c := range map[string]struct {
		column string
		rows   int64
		width  int64
		levels uint8
		want   string // the values, or "" for an error
	}{
		"plain":                     {pageOf(t, dataV1(2, 11, format.Plain), "\x01\x00\x00\x00a\x02\x00\x00\x00bb"), 2, 0, 0, "a,bb,"},
		"two pages":                 {pageOf(t, dataV1(1, 5, format.Plain), "\x01\x00\x00\x00a") + pageOf(t, dataV2(1, 5, 0, 0), "\x01\x00\x00\x00b"), 2, 0, 0, "a,b,"},
		"too few rows":              {pageOf(t, dataV1(1, 5, format.Plain), "\x01\x00\x00\x00a"), 2, 0, 0, ""},
		"too many rows":             {pageOf(t, dataV1(2, 10, format.Plain), "\x01\x00\x00\x00a\x01\x00\x00\x00a"), 1, 0, 0, ""},
		"no rows, ever again":       {strings.Repeat(pageOf(t, dataV1(0, 0, format.Plain), ""), 100), 1, 0, 0, ""},
		"fewer than none":           {pageOf(t, dataV1(-1, 5, format.Plain), "\x01\x00\x00\x00a"), 1, 0, 0, ""},
		"a value ends behind":       {pageOf(t, dataV1(1, 5, format.Plain), "\x02\x00\x00\x00ab"), 1, 0, 0, ""},
		"a number ends behind":      {pageOf(t, dataV1(1, 3, format.Plain), "\x02\x00\x00\x00"), 1, 4, 0, ""},
		"a page ends behind":        {pageOf(t, dataV1(1, 99, format.Plain), "\x01\x00\x00\x00a"), 1, 0, 0, ""},
		"nulls":                     {pageOf(t, dataV2(3, 9, 4, 0), "\x02\x01\x04\x00\x01\x00\x00\x00a"), 3, 0, 1, "a,null,null,"},
		"levels end behind":         {pageOf(t, dataV1(1, 9, format.Plain), "\x7f\x00\x00\x00\x02\x01\x01\x00\x00"), 1, 0, 1, ""},
		"levels run out":            {pageOf(t, dataV2(3, 7, 2, 0), "\x02\x01\x01\x00\x00\x00a"), 3, 0, 1, ""},
		"lists":                     {pageOf(t, dataV2(1, 5, 0, 2), "\x01\x00\x00\x00a"), 1, 0, 0, ""},
		"a dictionary":              {pageOf(t, dictionary(2, 10), "\x01\x00\x00\x00a\x01\x00\x00\x00b") + pageOf(t, dataV1(3, 3, format.RLEDictionary), "\x01\x03\x02"), 3, 0, 0, "a,b,a,"},
		"beyond the dictionary":     {pageOf(t, dictionary(1, 5), "\x01\x00\x00\x00a") + pageOf(t, dataV1(1, 3, format.RLEDictionary), "\x01\x02\x01"), 1, 0, 0, ""},
		"no dictionary":             {pageOf(t, dataV1(1, 3, format.RLEDictionary), "\x01\x02\x00"), 1, 0, 0, ""},
		"no indexes":                {pageOf(t, dictionary(1, 5), "\x01\x00\x00\x00a") + pageOf(t, dataV1(1, 0, format.RLEDictionary), ""), 1, 0, 0, ""},
		"indexes of 33 bits":        {pageOf(t, dictionary(1, 5), "\x01\x00\x00\x00a") + pageOf(t, dataV1(1, 7, format.RLEDictionary), "\x21\x02\x00\x00\x00\x00\x00"), 1, 0, 0, ""},
		"a large dictionary":        {pageOf(t, dictionary(1<<30, 5), "\x01\x00\x00\x00a") + pageOf(t, dataV1(1, 3, format.RLEDictionary), "\x01\x02\x00"), 1, 0, 0, ""},
		"two dictionaries":          {pageOf(t, dictionary(0, 0), "") + pageOf(t, dictionary(0, 0), ""), 1, 0, 0, ""},
		"lengths":                   {pageOf(t, dataV1(2, 13, format.DeltaLengthByteArray), lengths+"abb"), 2, 0, 0, "a,bb,"},
		"lengths end behind":        {pageOf(t, dataV1(2, 12, format.DeltaLengthByteArray), lengths+"ab"), 2, 0, 0, ""},
		"fewer lengths than values": {pageOf(t, dataV1(3, 13, format.DeltaLengthByteArray), lengths+"abb"), 3, 0, 0, ""},
		"more lengths than values":  {pageOf(t, dataV1(1, 13, format.DeltaLengthByteArray), lengths+"abb"), 1, 0, 0, ""},
		"lengths of numbers":        {pageOf(t, dataV1(2, 13, format.DeltaLengthByteArray), lengths+"abb"), 2, 4, 0, ""},
	} {
		archive := "PAR1" + c.column
		w := &window{ctx: context.Background(), r: strings.NewReader(archive), size: int64(len(archive)), block: 16}
		k := &chunk{window: w, at: 4, end: w.size, width: c.width, present: c.levels}
		got := ""
		err := k.eachRow(c.rows, func(_ int, v *value) error {
			if v == nil {
				got += "null,"
				return nil
			}
			if int64(v.from)+int64(v.span.size) > v.block.size {
				t.Errorf("%s: a value at %d in a page of %d bytes", what, v.from, v.block.size)
			}
			b, err := v.bytes(100)
			got += string(b) + ","
			return err
		})
		if (err == nil) != (c.want != "") || err == nil && got != c.want || w.err != nil {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
}

// TestChunks: columns in wrong places.
func TestChunks(t *testing.T) {
	b := read(t, "none-v1.parquet")
	w := &window{ctx: context.Background(), r: bytes.NewReader(b), size: int64(len(b)), block: 4096}
	tab := &table{scanner: &scanner{window: w}}
	file, err := parquet.OpenFile(w, w.size)
	if err == nil {
		tab.file = file
		err = tab.columns()
	}
	testkit.Must(t, err)
	for want, edit := range map[string]func(c *format.ColumnChunk){
		"another file": func(c *format.ColumnChunk) { c.FilePath = "/etc/passwd" },
		"encrypted":    func(c *format.ColumnChunk) { c.EncryptedColumnMetadata = []byte{1} },
		"encrypted; ":  func(c *format.ColumnChunk) { c.CryptoMetadata.Value = &format.EncryptionWithFooterKey{} },
		"with LZ4":     func(c *format.ColumnChunk) { c.MetaData.Codec = format.Lz4 },
		"lies outside": func(c *format.ColumnChunk) { c.MetaData.TotalCompressedSize = 1 << 40 },
		"outside of":   func(c *format.ColumnChunk) { c.MetaData.TotalCompressedSize = -1 },
		"of the file":  func(c *format.ColumnChunk) { c.MetaData.DataPageOffset = 0 },
		"overlap":      func(c *format.ColumnChunk) { tab.end = c.MetaData.DataPageOffset + 1 },
	} {
		c := file.Metadata().RowGroups[0].Columns[tab.image.ColumnIndex]
		edit(&c)
		if _, err := tab.chunk(tab.image, &c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
