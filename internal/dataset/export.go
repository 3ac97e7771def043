package dataset

import (
	"cmp"
	"context"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
)

const (
	groupRows = 128 << 10 // rows per row group; the writer holds one group in memory
	pageBytes = 256 << 10
)

// parquetRow is a row as users see it. Every Parquet reader supports plain and dictionary encoding
// with Snappy.
type parquetRow struct {
	Path        string `parquet:"path"`
	Class       string `parquet:"class,dict"`
	Label       int32  `parquet:"label,dict"`
	Height      int32  `parquet:"height,dict"`
	Width       int32  `parquet:"width,dict"`
	Orientation int32  `parquet:"orientation,dict"`
	Format      string `parquet:"format,dict"`
	Size        int64  `parquet:"size"`
	ModTime     int64  `parquet:"mtime_ns"`
	Problem     string `parquet:"problem,dict"`
	Object      string `parquet:"object,dict"` // archive that holds the sample; "": the sample is a file or an object
	Offset      int64  `parquet:"offset"`      // where the stored bytes are; Length says how many, and Coding how they are packed
	Length      int64  `parquet:"length"`
	Coding      int32  `parquet:"coding,dict"`
}

func parquetRowOf(d *Dataset, i int) parquetRow {
	t := d.table
	row := t.row[i]
	r := parquetRow{
		Path: t.path(i), Label: row.label, Height: row.height, Width: row.width, Orientation: int32(row.orient),
		Format: t.format(i), Size: row.id.Size, ModTime: row.id.ModTime,
		Problem: cmp.Or(t.problem(i, false), t.problem(i, true)),
	}
	if t.isMember(i) {
		m := &t.members[i]
		r.Object, r.Offset, r.Length, r.Coding = t.objects[m.object].name, m.Offset, m.Length, int32(m.Coding)
	}
	if r.Label >= 0 && int(r.Label) < len(d.Classes) {
		r.Class = d.Classes[r.Label]
	}
	return r
}

// WriteParquet writes a row for each sample, for programs that query tables. The columns are path,
// class, label, height, width, orientation, format, size, mtime_ns and problem, and, of a sample in
// an archive, object, offset, length and coding.
func WriteParquet(ctx context.Context, w io.Writer, d *Dataset) error {
	options := []parquet.WriterOption{&parquet.WriterConfig{
		CreatedBy: "batchfs index", Compression: &parquet.Snappy, MaxRowsPerRowGroup: groupRows, PageBufferSize: pageBytes,
	}}
	text := utf8.ValidString(strings.Join(d.Classes, "\x00"))
	for i := range d.Len() {
		text = text && utf8.ValidString(d.Path(i))
	}
	if !text {
		// Parquet's strings must be UTF-8, but paths need not be, so these columns hold bytes.
		options = append(options, parquet.SchemaOf(parquetRow{},
			parquet.StructTag(`parquet:"path,bytes"`, "path"), parquet.StructTag(`parquet:"class,bytes,dict"`, "class")))
	}
	out := parquet.NewGenericWriter[parquetRow](w, options...)
	rows := make([]parquetRow, 1024)
	for i := 0; i < d.Len(); i += len(rows) {
		rows = rows[:min(len(rows), d.Len()-i)]
		for k := range rows {
			rows[k] = parquetRowOf(d, i+k)
		}
		if _, err := out.Write(rows); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return out.Close()
}
