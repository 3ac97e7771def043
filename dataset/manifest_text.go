package dataset

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxLine bounds the memory that one line can take, in bytes.
const maxLine = 1 << 20

// textReader skips the byte order mark that some editors put before UTF-8 text.
func textReader(f *os.File) *bufio.Reader {
	r := bufio.NewReaderSize(f, maxLine)
	if mark, err := r.Peek(3); err == nil && string(mark) == "\xEF\xBB\xBF" {
		r.Discard(3)
	}
	return r
}

// readCSV reads a manifest whose first line names the columns.
func readCSV(f *os.File, emit func(*record) error) error {
	text := &recordBound{r: textReader(f)}
	r := csv.NewReader(text)
	r.ReuseRecord = true
	rec := record{unit: "line", kind: labelText}
	var columns []*string
	for {
		text.left = maxLine // a little more or less, as the CSV reader reads ahead
		fields, err := r.Read()
		var parse *csv.ParseError
		switch {
		case err == io.EOF && columns == nil:
			return errors.New("line 1: no header")
		case err == io.EOF:
			return nil
		case err == errLongRecord:
			return fmt.Errorf("after line %d: %w", max(rec.line, 1), err)
		case errors.As(err, &parse):
			return lineError(rec.unit, int64(parse.Line), parse.Err)
		case err != nil:
			return err
		}
		if columns == nil {
			if columns, err = csvColumns(fields, &rec); err != nil {
				return lineError(rec.unit, 1, err)
			}
			continue
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

// recordBound limits how much of a CSV file one record may read. An unclosed quote would
// otherwise take in the whole file.
type recordBound struct {
	r    io.Reader
	left int
}

var errLongRecord = fmt.Errorf("longer than %d bytes; a quote may be left open", maxLine)

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
		columns[k] = rec.field(strings.TrimSpace(name))
		if columns[k] != nil && slices.Contains(columns[:k], columns[k]) {
			return nil, fmt.Errorf("two columns named %q", strings.TrimSpace(name))
		}
	}
	if !slices.Contains(columns, &rec.path) {
		return nil, errors.New(`the header has no column "path"`)
	}
	return columns, nil
}

// readJSONL reads a manifest with one JSON object per line.
func readJSONL(f *os.File, emit func(*record) error) error {
	r := textReader(f)
	rec := record{unit: "line"}
	for {
		line, err := r.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			return lineError(rec.unit, rec.line+1, fmt.Errorf("longer than %d bytes", maxLine))
		}
		if err != nil && err != io.EOF {
			return err
		}
		rec.line++
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := rec.readJSON(line); err != nil {
				return lineError(rec.unit, rec.line, err)
			}
			if err := emit(&rec); err != nil {
				return err
			}
		}
		if err == io.EOF {
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
		Path, Format         any
		Label, Height, Width json.RawMessage
	}
	if err := json.Unmarshal(line, &row); err != nil {
		var other any
		if json.Unmarshal(line, &other) == nil {
			return fmt.Errorf("must be a JSON object, but is %s", jsonKind(other))
		}
		return fmt.Errorf("must be a JSON object: %w", err)
	}
	if row.Path == nil {
		return errors.New(`no "path"`)
	}
	var isText bool
	if r.path, isText = row.Path.(string); !isText {
		return fmt.Errorf("\"path\" must be a string, but is %s", jsonKind(row.Path))
	}
	if r.format, isText = row.Format.(string); !isText && row.Format != nil {
		return fmt.Errorf("\"format\" must be a string, but is %s", jsonKind(row.Format))
	}
	r.height, r.width = jsonNumber(row.Height), jsonNumber(row.Width)
	r.label, r.kind = jsonNumber(row.Label), labelNumber
	switch first := (r.label + " ")[0]; {
	case r.label == "":
		r.kind = labelText
	case first == '"':
		r.kind = labelName
		return json.Unmarshal(row.Label, &r.label)
	case first != '-' && (first < '0' || first > '9'):
		return fmt.Errorf("label %s is neither a number nor a class name", row.Label)
	}
	return nil
}

// jsonNumber returns the raw text; the caller checks whether it is a number.
func jsonNumber(raw json.RawMessage) string {
	if string(raw) == "null" {
		return ""
	}
	return string(raw)
}

// jsonKind describes a value in JSON terms.
func jsonKind(value any) string {
	switch value.(type) {
	case string:
		return "a string"
	case float64:
		return "a number"
	case bool:
		return "true or false"
	case []any:
		return "an array"
	}
	return "an object"
}
