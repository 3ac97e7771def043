package dataset

import (
	"context"
	"io"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
)

const (
	groupRows = 128 << 10 // rows per row group; the writer holds one group in memory
	pageBytes = 256 << 10
	writeRows = 1024
)

// indexFacts are the index columns that never hold user text. Every Parquet reader supports
// plain and dictionary encoding with Snappy.
type indexFacts struct {
	Label       int32  `parquet:"label,dict"`
	Height      int32  `parquet:"height,dict"`
	Width       int32  `parquet:"width,dict"`
	Orientation int32  `parquet:"orientation,dict"`
	Format      string `parquet:"format,dict"`
	Size        int64  `parquet:"size"`
	ModTime     int64  `parquet:"mtime_ns"`
	Problem     string `parquet:"problem,dict"`
}

// textRow is a row of an index whose names are all UTF-8; otherwise rows are byteRows, with
// binary names, because Parquet strings must be UTF-8.
type textRow struct {
	Path  string `parquet:"path"`
	Class string `parquet:"class,dict"`
	indexFacts
}

type byteRow struct {
	Path  []byte `parquet:"path"`
	Class []byte `parquet:"class,dict"`
	indexFacts
}

// writeIndex writes the index with a zero checksum.
func writeIndex(ctx context.Context, w io.Writer, x *index) error {
	if allText(x) {
		return writeTable(ctx, w, x, func(row *textRow, i int) {
			row.Path, row.Class = x.table.path(i), x.class(i)
			row.indexFacts = x.table.facts(i)
		})
	}
	return writeTable(ctx, w, x, func(row *byteRow, i int) {
		row.Path, row.Class = []byte(x.table.path(i)), []byte(x.class(i))
		row.indexFacts = x.table.facts(i)
	})
}

func allText(x *index) bool {
	for _, c := range x.classes {
		if !utf8.ValidString(c) {
			return false
		}
	}
	return utf8.Valid(x.table.paths)
}

func (x *index) class(i int) string {
	if label := x.table.labels[i]; label >= 0 && int(label) < len(x.classes) {
		return x.classes[label]
	}
	return ""
}

func (s *store) facts(i int) indexFacts {
	id, _ := s.identity(i)
	problem, _ := s.problem(i)
	return indexFacts{
		Label: s.labels[i], Height: s.heights[i], Width: s.widths[i],
		Orientation: int32(s.orients[i]), Format: s.formatNames[s.formats[i]],
		Size: id.Size, ModTime: id.ModTime, Problem: problem,
	}
}

func writeTable[R any](ctx context.Context, w io.Writer, x *index, fill func(row *R, i int)) error {
	metadata, err := x.metadata()
	if err != nil {
		return err
	}
	out := parquet.NewGenericWriter[R](w, &parquet.WriterConfig{
		CreatedBy:          "batchfs index " + indexVersion,
		Compression:        &parquet.Snappy,
		MaxRowsPerRowGroup: groupRows,
		PageBufferSize:     pageBytes,
		KeyValueMetadata:   metadata,
	})
	rows := make([]R, 0, writeRows)
	for i := range x.table.rows() {
		rows = rows[:len(rows)+1]
		fill(&rows[len(rows)-1], i)
		if len(rows) == cap(rows) && ctx.Err() != nil {
			return ctx.Err()
		}
		if len(rows) == cap(rows) || i == x.table.rows()-1 {
			if _, err := out.Write(rows); err != nil {
				return err
			}
			rows = rows[:0]
		}
	}
	return out.Close()
}
