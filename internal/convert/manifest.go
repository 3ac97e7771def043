package convert

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/batchfs/batchfs/dataset"
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

// labels are the rows of a manifest: each sample's path and label. A label is a string if named
// holds, else an int64, or nil if there is none. Sizes are left out: reading them again is quick,
// and they are then the files' own.
type labels iter.Seq2[string, any]

func (c *conversion) labels(yield func(string, any) bool) {
	classes := c.ds.Classes
	if c.report.Classes != "" {
		classes = nil
	}
	for i := range c.ds.Len() {
		var label any
		if l := c.ds.Label(i); l >= 0 && classes != nil {
			label = classes[l]
		} else if l >= 0 {
			label = int64(l)
		}
		if !yield(c.names.kept(i)+c.states[i].ext, label) {
			return
		}
	}
}

// writeManifest writes the result's manifest, if the source has one, in the same format, since that
// can represent everything in the source.
func (c *conversion) writeManifest() error {
	name := c.names.manifest
	if name == "" {
		return nil
	}
	formats := map[string]func(io.Writer, labels) error{".csv": writeCSV, ".jsonl": writeJSONL, ".parquet": writeParquet}
	write := formats[strings.ToLower(filepath.Ext(name))]
	if c.report.Classes != "" {
		if err := c.writeWhole(classesName, func(w io.Writer) error {
			_, err := w.Write(dataset.ClassesText(c.ds.Classes))
			return err
		}); err != nil {
			return err
		}
	}
	return c.writeWhole(name, func(w io.Writer) error { return write(w, c.labels) })
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

func writeCSV(w io.Writer, rows labels) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"path", "label"}) // out keeps errors until Error
	for path, label := range rows {
		text := ""
		if label != nil {
			text = fmt.Sprint(label)
		}
		_ = out.Write([]string{path, text})
	}
	out.Flush()
	return out.Error()
}

func writeJSONL(w io.Writer, rows labels) error {
	type line struct {
		Path  string `json:"path"`
		Label any    `json:"label,omitempty"`
	}
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	for path, label := range rows {
		if err := out.Encode(line{path, label}); err != nil {
			return err
		}
	}
	return nil
}

// writeParquet writes paths as bytes, because they need not be UTF-8.
func writeParquet(w io.Writer, rows labels) error {
	column := parquet.Int(64)
	for _, label := range rows {
		if _, named := label.(string); named {
			column = parquet.String()
		}
	}
	schema := parquet.NewSchema("samples", parquet.Group{
		"label": parquet.Optional(parquet.Encoded(column, &parquet.RLEDictionary)),
		"path":  parquet.Leaf(parquet.ByteArrayType),
	})
	out := parquet.NewWriter(w, schema, parquet.Compression(&parquet.Snappy))
	for path, label := range rows {
		defined := 0
		if label != nil {
			defined = 1
		}
		row := parquet.Row{parquet.ValueOf(label).Level(0, defined, 0), parquet.ValueOf([]byte(path)).Level(0, 0, 1)}
		if _, err := out.WriteRows([]parquet.Row{row}); err != nil {
			return err
		}
	}
	return out.Close()
}
