package dataset

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-faster/jx"
)

// maxLine bounds the memory that one line can take, in bytes.
const maxLine = 1 << 20

// textReader skips the byte order mark that some editors put before UTF-8 text.
func textReader(f *io.SectionReader) *bufio.Reader {
	r := bufio.NewReaderSize(f, maxLine)
	if mark, err := r.Peek(3); err == nil && string(mark) == "\xEF\xBB\xBF" {
		r.Discard(3)
	}
	return r
}

// readCSV reads a manifest whose first line names the columns.
func readCSV(f *io.SectionReader, rec *record, emit func() error) error {
	text := &recordBound{r: textReader(f)}
	r := csv.NewReader(text)
	r.ReuseRecord = true
	rec.line, rec.unit = 1, "line"
	var columns []*string
	var names []string
	for {
		text.left = maxLine // approximate, because the CSV reader reads ahead
		fields, err := r.Read()
		var parse *csv.ParseError
		switch {
		case err == io.EOF && columns == nil:
			return errors.New("no header")
		case err == io.EOF:
			return nil
		case errors.As(err, &parse):
			rec.line = parse.Line
			return parse.Err
		case err != nil:
			return err
		case columns == nil:
			names = slices.Clone(fields)
			if columns, err = csvColumns(names, rec); err != nil {
				return err
			}
			continue
		}
		rec.line, _ = r.FieldPos(0)
		for k, field := range fields {
			if columns[k] != nil {
				*columns[k] = field
			} else if rec.whole != nil {
				rec.other(names[k], field)
			}
		}
		rec.label = strings.TrimSpace(rec.label) // as in "a.jpg, 1", which is the number 1 and not a class called " 1"
		if err := emit(); err != nil {
			return err
		}
	}
}

// recordBound limits how much of a CSV file one record may read. Otherwise an unclosed quote would
// take in the whole file.
type recordBound struct {
	r    io.Reader
	left int
}

var errLongRecord = fmt.Errorf("the record that follows is longer than %d bytes; a quote may be left open", maxLine)

func (b *recordBound) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLongRecord
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// csvColumns maps each column to its field in rec, nil if the column is ignored.
func csvColumns(header []string, rec *record) ([]*string, error) {
	columns := make([]*string, len(header))
	for k, name := range header {
		header[k] = strings.TrimSpace(name)
	}
	for k, name := range header {
		if name == "file_name" && slices.Contains(header, "path") {
			continue
		}
		columns[k] = rec.field(name)
		if columns[k] != nil && slices.Contains(columns[:k], columns[k]) {
			return nil, fmt.Errorf("two columns named %q", name)
		}
	}
	if !slices.Contains(columns, &rec.path) {
		return nil, errNoPath
	}
	return columns, nil
}

// readJSONL reads a manifest with one JSON object per line.
func readJSONL(f *io.SectionReader, rec *record, emit func() error) error {
	r := textReader(f)
	rec.unit = "line"
	for {
		rec.line++
		line, end := r.ReadSlice('\n')
		if end == bufio.ErrBufferFull {
			return fmt.Errorf("longer than %d bytes", maxLine)
		}
		if end != nil && end != io.EOF {
			return end
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			err := rec.readJSON(line)
			if err == nil {
				err = emit()
			}
			if err != nil {
				return err
			}
		}
		if end == io.EOF {
			return nil
		}
	}
}

// readJSON sets the record's fields from a JSON object.
func (r *record) readJSON(line []byte) error {
	// The decoder would replace invalid bytes, and so name another file.
	if !utf8.Valid(line) {
		return errors.New("not UTF-8")
	}
	switch {
	case !json.Valid(line):
		return fmt.Errorf("must be a JSON object: %w", json.Unmarshal(line, new(any)))
	case line[0] != '{':
		return errors.New("must be a JSON object")
	}
	r.path, r.label, r.height, r.width, r.format = "", "", "", "", ""
	for _, value := range r.others {
		*value = ""
	}
	named := "" // name of the column that has the path
	d := jx.DecodeBytes(line)
	columns, err := d.ObjIter()
	for err == nil && columns.Next() {
		name := string(columns.Key())
		var value jx.Raw
		value, err = d.Raw()
		to := r.field(name)
		if err == nil && to == nil && r.whole != nil && value.Type() != jx.Null {
			r.other(name, string(value))
		}
		second := to == &r.path && named == "path" && name != named // whatever the order is
		if err != nil || to == nil || value.Type() == jx.Null || second {
			continue
		}
		if to == &r.path {
			named = name
		}
		err = r.setJSON(name, to, value)
	}
	if err == nil && named == "" && r.paths == "" {
		err = errNoPath
	}
	return err
}

// setJSON sets a field to a value.
func (r *record) setJSON(name string, to *string, value jx.Raw) error {
	kind := value.Type()
	switch {
	case to == &r.label && kind == jx.String:
		r.kind = labelName
	case to == &r.label && kind == jx.Number:
		r.kind = labelNumber
	case to == &r.label:
		return r.noLabel(string(value))
	case to != &r.path && to != &r.format: // keep it as written
		kind = jx.Invalid
	case kind != jx.String:
		return fmt.Errorf("%q must be a string", name)
	}
	if kind == jx.String {
		return json.Unmarshal(value, to)
	}
	*to = string(value)
	return nil
}
