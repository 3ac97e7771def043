package dataset

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
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
	for {
		text.left = maxLine // a little more or less, as the CSV reader reads ahead
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
			if columns, err = csvColumns(fields, rec); err != nil {
				return err
			}
			continue
		}
		rec.line, _ = r.FieldPos(0)
		for k, field := range fields {
			if columns[k] != nil {
				*columns[k] = field
			}
		}
		if err := emit(); err != nil {
			return err
		}
	}
}

// recordBound limits how much of a CSV file one record may read. An unclosed quote would
// otherwise take in the whole file.
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

// csvColumns maps each column to its field in rec, nil for columns of no interest.
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

// readJSON sets the record's fields to those of a JSON object.
func (r *record) readJSON(line []byte) error {
	// The decoder would replace invalid bytes, and so name another file.
	if !utf8.Valid(line) {
		return errors.New("not UTF-8")
	}
	var row struct {
		Path     *string         `json:"path"`
		FileName *string         `json:"file_name"`
		Format   string          `json:"format"`
		Label    json.RawMessage `json:"label"`
		Height   json.RawMessage `json:"height"`
		Width    json.RawMessage `json:"width"`
	}
	err := json.Unmarshal(line, &row)
	if err == nil && (r.column != "label" || r.paths != "" || r.others != nil) {
		var all map[string]json.RawMessage
		err = json.Unmarshal(line, &all)
		row.Label = all[r.column]
		if r.paths != "" {
			return r.readPath(all[r.paths])
		}
		r.takeOthers(all)
	}
	row.Path = cmp.Or(row.Path, row.FileName)
	var other *json.UnmarshalTypeError
	switch {
	case errors.As(err, &other):
		must := "must be a JSON object"
		if other.Field != "" {
			must = fmt.Sprintf("%q must be a string", other.Field)
		}
		return fmt.Errorf("%s, but is %s", must, jsonKinds[other.Value])
	case err != nil:
		return fmt.Errorf("must be a JSON object: %w", err)
	case row.Path == nil:
		return errNoPath
	}
	r.path, r.format = *row.Path, row.Format
	r.height, r.width = jsonNumber(row.Height), jsonNumber(row.Width)
	r.label, r.kind = jsonNumber(row.Label), labelNumber
	switch first := (r.label + "-")[0]; {
	case first == '"':
		r.kind = labelName
		return json.Unmarshal(row.Label, &r.label)
	case first != '-' && (first < '0' || first > '9'):
		return fmt.Errorf("%s %s is neither a whole number nor a class name", r.column, row.Label)
	}
	return nil
}

// readPath takes the path, which may be missing, if nothing else is of interest.
func (r *record) readPath(path json.RawMessage) error {
	r.path = ""
	if path != nil && json.Unmarshal(path, &r.path) != nil {
		return fmt.Errorf("%q must be a string", r.paths)
	}
	return nil
}

// takeOthers takes the values without a field, as they are written.
func (r *record) takeOthers(all map[string]json.RawMessage) {
	if r.others == nil {
		return
	}
	for _, value := range r.others {
		*value = ""
	}
	for name, value := range all {
		if to := r.field(name); to != nil && to == r.others[name] && string(value) != "null" {
			*to = string(value)
		}
	}
}

// jsonNumber returns the raw text; the caller checks whether it is a number.
func jsonNumber(raw json.RawMessage) string {
	if string(raw) == "null" {
		return ""
	}
	return string(raw)
}

// jsonKinds are the decoder's words for the kinds of values, in JSON terms.
var jsonKinds = map[string]string{
	"string": "a string", "number": "a number", "bool": "true or false", "array": "an array", "object": "an object",
}
