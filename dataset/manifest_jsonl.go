package dataset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"
)

// maxLine bounds the memory that one line can take, in bytes.
const maxLine = 1 << 20

// jsonRow is one line. Fields that may be a number or a string stay raw.
type jsonRow struct {
	Path   *string         `json:"path"`
	Label  json.RawMessage `json:"label"`
	Height json.RawMessage `json:"height"`
	Width  json.RawMessage `json:"width"`
	Format *string         `json:"format"`
}

// readJSONL reads a manifest with one JSON object per line.
func readJSONL(f *os.File, emit func(*record) error) error {
	r := withoutBOM(bufio.NewReaderSize(f, maxLine))
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
			if err := jsonRecord(line, &rec); err != nil {
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

func jsonRecord(line []byte, rec *record) error {
	// The decoder would replace invalid bytes, and so name another file.
	if !utf8.Valid(line) {
		return errors.New("not UTF-8")
	}
	var row jsonRow
	if err := json.Unmarshal(line, &row); err != nil {
		return jsonError(err)
	}
	if row.Path == nil {
		return errors.New(`no "path"`)
	}
	rec.path, rec.format = *row.Path, ""
	if row.Format != nil {
		rec.format = *row.Format
	}
	var err error
	if rec.label, rec.kind, err = jsonLabel(row.Label); err != nil {
		return err
	}
	rec.height, rec.width = jsonNumber(row.Height), jsonNumber(row.Width)
	return nil
}

// jsonError describes a bad line in JSON terms; the decoder's errors speak of Go types.
func jsonError(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &wrong):
		return fmt.Errorf("must be a JSON object: %w", err)
	case wrong.Field == "":
		return fmt.Errorf("must be a JSON object, but is %s", jsonKind(wrong.Value))
	}
	return fmt.Errorf("%q must be a string, but is %s", wrong.Field, jsonKind(wrong.Value))
}

// jsonKind is the decoder's word for a kind of value, with its article.
func jsonKind(kind string) string {
	switch kind {
	case "array", "object":
		return "an " + kind
	case "bool":
		return "true or false"
	}
	return "a " + kind
}

func jsonLabel(raw json.RawMessage) (string, labelKind, error) {
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return "", labelText, nil
	case raw[0] == '"':
		var name string
		err := json.Unmarshal(raw, &name)
		return name, labelName, err
	case raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9':
		return string(raw), labelNumber, nil
	}
	return "", 0, fmt.Errorf("label %s is neither a number nor a class name", raw)
}

// jsonNumber returns the raw text; the caller checks whether it is a number.
func jsonNumber(raw json.RawMessage) string {
	if string(raw) == "null" {
		return ""
	}
	return string(raw)
}
