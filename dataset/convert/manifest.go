package convert

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// rows are the rows of a manifest: each sample's path and label, "" for no label. Labels are
// names if the dataset has classes, else numbers. Sizes are left out: reading them again is
// quick, and they are then the files' own.
type rows struct {
	n     int
	path  func(i int) string
	label func(i int) string
	names bool
}

func (c *conversion) rows() rows {
	classes := c.ds.Classes()
	return rows{
		n: c.ds.Len(), path: c.name, names: classes != nil,
		label: func(i int) string {
			switch l := c.ds.Label(i); {
			case l < 0:
				return ""
			case classes != nil:
				return classes[l]
			default:
				return strconv.Itoa(l)
			}
		},
	}
}

// writeManifest writes the result's manifest in the source's format, which can represent
// everything that the source's could.
func (c *conversion) writeManifest() error {
	name := c.tree.manifest
	write := map[string]func(io.Writer, rows) error{".csv": writeCSV, ".jsonl": writeJSONL, ".parquet": writeParquet}[strings.ToLower(filepath.Ext(name))]
	return c.files.create(0, name, 0o644, c.ds.ModTime().UnixNano(), func(out *os.File) error {
		b := bufio.NewWriterSize(out, 1<<20)
		if err := write(b, c.rows()); err != nil {
			return err
		}
		return b.Flush()
	})
}

func writeCSV(w io.Writer, r rows) error {
	out := csv.NewWriter(w)
	if err := out.Write([]string{"path", "label"}); err != nil {
		return err
	}
	for i := range r.n {
		if err := out.Write([]string{r.path(i), r.label(i)}); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// writeJSONL writes names as strings and numbers as numbers, which is how readers distinguish
// them.
func writeJSONL(w io.Writer, r rows) error {
	type line struct {
		Path  string          `json:"path"`
		Label json.RawMessage `json:"label,omitempty"`
	}
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	for i := range r.n {
		l := line{Path: r.path(i), Label: json.RawMessage(r.label(i))}
		if text := r.label(i); r.names && text != "" {
			var err error
			if l.Label, err = json.Marshal(text); err != nil {
				return err
			}
		}
		if err := out.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

// writeParquet writes paths as bytes, because they need not be UTF-8.
func writeParquet(w io.Writer, r rows) error {
	type named struct {
		Path  []byte  `parquet:"path"`
		Label *string `parquet:"label,optional,dict"`
	}
	type numbered struct {
		Path  []byte `parquet:"path"`
		Label *int64 `parquet:"label,optional,dict"`
	}
	if r.names {
		return writeRows(w, r, func(i int) named {
			row := named{Path: []byte(r.path(i))}
			if text := r.label(i); text != "" {
				row.Label = &text
			}
			return row
		})
	}
	return writeRows(w, r, func(i int) numbered {
		row := numbered{Path: []byte(r.path(i))}
		if n, err := strconv.ParseInt(r.label(i), 10, 64); err == nil {
			row.Label = &n
		}
		return row
	})
}

func writeRows[R any](w io.Writer, r rows, row func(i int) R) error {
	out := parquet.NewGenericWriter[R](w, parquet.Compression(&parquet.Snappy))
	batch := make([]R, 0, 1024)
	for i := range r.n {
		batch = append(batch, row(i))
		if len(batch) == cap(batch) || i == r.n-1 {
			if _, err := out.Write(batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	return out.Close()
}
