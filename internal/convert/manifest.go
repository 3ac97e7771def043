package convert

import (
	"bufio"
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-faster/jx"
	"github.com/parquet-go/parquet-go"

	"github.com/batchfs/batchfs/internal/dataset"
)

// classesName is the file of class names, used if labels are numbers because named is false.
const classesName = "classes.txt"

// named says whether a manifest with class names as labels would get the dataset's numbers: it
// sorts the names that appear.
func (c *conversion) named() bool {
	classes := c.ds.Classes
	without := map[int]bool{}
	for label := range classes {
		without[label] = true
	}
	for i := range c.ds.Len() {
		delete(without, c.ds.Label(i))
	}
	return len(without) == 0 && slices.IsSortedFunc(classes, dataset.CompareNames)
}

// A row is one of the result's manifest.
type row struct {
	path          string
	label         any      // a string if named holds, else an int64; nil: none
	height, width int      // 0: not given
	values        []string // in each column, as JSON; "": not given
}

// A rowSource calls write for each row.
type rowSource func(write func(row) error) error

// rows are the rows of the result's manifest. They have sizes only if columns need them: reading
// them again is quick, and they are then the files' own.
func (c *conversion) rows(ctx context.Context) rowSource {
	rowOf := func(i int) row {
		r := row{path: c.names.kept(i) + c.states[i].ext}
		if l := c.ds.Label(i); l >= 0 && c.table.named {
			r.label = c.ds.Classes[l]
		} else if l >= 0 {
			r.label = int64(l)
		}
		return r
	}
	return func(write func(row) error) error {
		if c.table.carried == nil {
			for i := range c.ds.Len() {
				if err := write(rowOf(i)); err != nil {
					return err
				}
			}
			return nil
		}
		_, err := c.table.eachRow(ctx, func(i int, rows *dataset.Rows, source *dataset.Row) (err error) {
			r := rowOf(i)
			if c.table.sizes {
				r.height, r.width = source.Height, source.Width
			}
			if r.values, err = c.table.values(rows, source); err != nil {
				return err
			}
			return write(r)
		})
		return err
	}
}

// writeManifest writes the result's manifest, if the source has one, in the same format, since that
// can represent everything in the source.
func (c *conversion) writeManifest(ctx context.Context) error {
	name := c.names.manifest
	if name == "" {
		return nil
	}
	formats := map[string]func(io.Writer, *table, rowSource) error{".csv": writeCSV, ".jsonl": writeJSONL, ".parquet": writeParquet}
	write := formats[strings.ToLower(filepath.Ext(name))]
	if c.report.Classes != "" {
		if err := c.writeWhole(classesName, func(w io.Writer) error {
			_, err := w.Write(dataset.ClassesText(c.ds.Classes))
			return err
		}); err != nil {
			return err
		}
	}
	return c.writeWhole(name, func(w io.Writer) error { return write(w, &c.table, c.rows(ctx)) })
}

// writeWhole writes a file of the result other than a sample.
func (c *conversion) writeWhole(name string, write func(w io.Writer) error) error {
	temp := c.tree.temporary(c.ds.Len())
	err := c.tree.create(temp, 0o644, func(out *os.File) (time.Time, error) {
		b := bufio.NewWriterSize(out, 1<<20)
		if err := write(b); err != nil {
			return time.Time{}, err
		}
		return c.ds.ModTime, b.Flush()
	})
	if err != nil {
		return err
	}
	return c.tree.place(temp, name)
}

// heightColumn and widthColumn hold sizes, if there are any.
const heightColumn, widthColumn = "height", "width"

func writeCSV(w io.Writer, t *table, rows rowSource) error {
	out := csv.NewWriter(w)
	header := []string{"path", labelColumn}
	if t.sizes {
		header = append(header, heightColumn, widthColumn)
	}
	for _, c := range t.carried {
		header = append(header, c.name)
	}
	_ = out.Write(header) // out keeps errors until Error
	err := rows(func(r row) error {
		fields := []string{r.path, ""}
		if r.label != nil {
			fields[1] = fmt.Sprint(r.label)
		}
		if t.sizes {
			fields = append(fields, sizeText(r.height), sizeText(r.width))
		}
		for _, value := range r.values {
			text, _ := textOf(value)
			fields = append(fields, text)
		}
		return out.Write(fields)
	})
	out.Flush()
	return cmp.Or(err, out.Error())
}

// sizeText is a height or a width as text; "": it is not given.
func sizeText(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func writeJSONL(w io.Writer, t *table, rows rowSource) error {
	var e jx.Encoder
	return rows(func(r row) error {
		e.Reset()
		e.Obj(func(e *jx.Encoder) {
			e.Field("path", func(e *jx.Encoder) { e.Str(r.path) })
			switch label := r.label.(type) {
			case string:
				e.Field(labelColumn, func(e *jx.Encoder) { e.Str(label) })
			case int64:
				e.Field(labelColumn, func(e *jx.Encoder) { e.Int64(label) })
			}
			if r.height > 0 {
				e.Field(heightColumn, func(e *jx.Encoder) { e.Int(r.height) })
			}
			if r.width > 0 {
				e.Field(widthColumn, func(e *jx.Encoder) { e.Int(r.width) })
			}
			for k, value := range r.values {
				if value != "" {
					e.Field(t.carried[k].name, func(e *jx.Encoder) { e.Raw([]byte(value)) })
				}
			}
		})
		_, err := w.Write(append(e.Bytes(), '\n'))
		return err
	})
}

// writeParquet writes paths as bytes, because they need not be UTF-8. Columns with other values
// than texts become JSON.
func writeParquet(w io.Writer, t *table, rows rowSource) error {
	label := parquet.Int(64)
	if t.named {
		label = parquet.String()
	}
	group := parquet.Group{
		labelColumn: parquet.Optional(parquet.Encoded(label, &parquet.RLEDictionary)),
		"path":      parquet.Leaf(parquet.ByteArrayType),
	}
	if t.sizes {
		group[heightColumn], group[widthColumn] = parquet.Optional(parquet.Int(64)), parquet.Optional(parquet.Int(64))
	}
	for _, c := range t.carried {
		if group[c.name] = parquet.Optional(parquet.JSON()); c.isText {
			group[c.name] = parquet.Optional(parquet.String())
		}
	}
	schema := parquet.NewSchema("samples", group)
	numbers := map[string]int{} // of columns, which are sorted by name
	for k, name := range slices.Sorted(maps.Keys(group)) {
		numbers[name] = k
	}
	out := parquet.NewWriter(w, schema, parquet.Compression(&parquet.Snappy))
	err := rows(func(r row) error {
		values := make(parquet.Row, len(numbers))
		set := func(name string, value any) {
			k, defined := numbers[name], 0
			if value != nil {
				defined = 1
			}
			values[k] = parquet.ValueOf(value).Level(0, defined, k)
		}
		set(labelColumn, r.label)
		if t.sizes {
			set(heightColumn, sizeValue(r.height))
			set(widthColumn, sizeValue(r.width))
		}
		for k, c := range t.carried {
			switch text, _ := textOf(r.values[k]); {
			case r.values[k] == "":
				set(c.name, nil)
			case c.isText:
				set(c.name, text)
			default:
				set(c.name, r.values[k])
			}
		}
		k := numbers["path"]
		values[k] = parquet.ValueOf([]byte(r.path)).Level(0, 0, k)
		_, err := out.WriteRows([]parquet.Row{values})
		return err
	})
	return cmp.Or(err, out.Close())
}

// sizeValue is a height or a width; nil: it is not given.
func sizeValue(n int) any {
	if n == 0 {
		return nil
	}
	return int64(n)
}
