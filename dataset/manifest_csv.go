package dataset

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// readCSV reads a manifest whose first line names the columns.
func readCSV(f *os.File, emit func(*record) error) error {
	text := &recordBound{r: withoutBOM(bufio.NewReaderSize(f, 1<<20))}
	r := csv.NewReader(text)
	r.ReuseRecord = true
	text.begin()
	header, err := r.Read()
	if err == io.EOF {
		return errors.New("line 1: no header")
	}
	if err != nil {
		return csvError(err)
	}
	rec := record{unit: "line", kind: labelText}
	columns, err := csvColumns(header, &rec)
	if err != nil {
		return lineError(rec.unit, 1, err)
	}
	for {
		text.begin()
		fields, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err == errLongRecord {
			return fmt.Errorf("after line %d: %w", max(rec.line, 1), err)
		}
		if err != nil {
			return csvError(err)
		}
		line, _ := r.FieldPos(0)
		rec.line = int64(line)
		for k, field := range fields {
			if columns[k] != nil {
				*columns[k] = field
			}
		}
		if err := emit(&rec); err != nil {
			return err
		}
	}
}

// recordBound limits how much of a CSV file one record may read, to about maxLine bytes. An
// unclosed quote would otherwise take in the whole file.
type recordBound struct {
	r    io.Reader
	left int
}

var errLongRecord = fmt.Errorf("longer than %d bytes; a quote may be left open", maxLine)

// begin starts the next record. The limit is approximate, because the CSV reader reads a few
// kilobytes ahead.
func (b *recordBound) begin() { b.left = maxLine }

func (b *recordBound) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLongRecord
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// csvColumns maps each column to its field in rec, nil for columns of no interest.
func csvColumns(header []string, rec *record) ([]*string, error) {
	known := map[string]*string{
		"path": &rec.path, "label": &rec.label,
		"height": &rec.height, "width": &rec.width, "format": &rec.format,
	}
	columns := make([]*string, len(header))
	seen := map[string]bool{}
	for k, name := range header {
		name = strings.TrimSpace(name)
		if columns[k] = known[name]; columns[k] == nil {
			continue
		}
		if seen[name] {
			return nil, fmt.Errorf("two columns named %q", name)
		}
		seen[name] = true
	}
	if !seen["path"] {
		return nil, errors.New(`the header has no column "path"`)
	}
	return columns, nil
}

func csvError(err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return lineError("line", int64(parse.Line), parse.Err)
	}
	return err
}
