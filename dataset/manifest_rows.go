package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/sys/unix"
)

// A Row is what a manifest says of an image.
type Row struct {
	Place         string            // in the manifest, such as "line 7"
	Path          string            // of the image, as [Dataset.Path] has it
	Height, Width int               // 0: not given
	Columns       map[string]string // that datasets do not use, as JSON; "": not given
}

// ManifestOf returns the path of the manifest that a dataset on this machine is, or has; "" if
// there is none.
func ManifestOf(path string, ignoreMetadata bool) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", nil // opening it says what is wrong
	case info.IsDir():
		name, err := metadata(path, &Options{IgnoreMetadata: ignoreMetadata})
		if name == "" || err != nil {
			return "", err
		}
		return filepath.Join(path, name), nil
	}
	src := &source{}
	err = src.takeFile(filepath.Base(path), func() (bool, error) {
		f, err := os.Open(path)
		if err != nil {
			return false, err
		}
		defer f.Close()
		return holdsImages(f, info.Size()), nil
	})
	if err != nil || src.manifest == "" {
		return "", nil
	}
	return path, nil
}

// CleanPath is a path in a manifest as [Dataset.Path] has it.
func CleanPath(name string) string {
	clean, _, err := cleanPath(name)
	if err != nil {
		return name // which no dataset has
	}
	return clean
}

// ReadManifest calls take for the rows of a manifest on this machine, one after another. It keeps
// its memory.
func ReadManifest(ctx context.Context, path string, take func(*Row) error) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	rec := &record{others: map[string]*string{}}
	section, read := io.NewSectionReader(f, 0, info.Size()), manifestReader(path)
	isText := strings.EqualFold(filepath.Ext(path), ".csv")
	if strings.EqualFold(filepath.Ext(path), ".parquet") {
		read = readWholeParquet
	}
	err = read(section, rec, func() error {
		if rec.line%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		row, err := rec.row(isText)
		if err == nil {
			err = take(row)
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%s: %w: %w", path, ErrManifest, rec.at(err))
	}
	return err
}

// row is the row of a record. isText says that its values are text, and not JSON.
func (r *record) row(isText bool) (*Row, error) {
	clean, _, err := cleanPath(r.path)
	height, errHeight := parseExtent("height", r.height)
	width, errWidth := parseExtent("width", r.width)
	row := &Row{fmt.Sprintf("%s %d", r.unit, r.line), clean, int(height), int(width), map[string]string{}}
	for name, value := range r.others {
		if row.Columns[name] = *value; isText && *value != "" {
			quoted, _ := json.Marshal(*value) // strings always encode
			row.Columns[name] = string(quoted)
		}
	}
	return row, errors.Join(err, errHeight, errWidth)
}

// readWholeParquet reads all columns of a manifest.
func readWholeParquet(f *io.SectionReader, rec *record, emit func() error) (err error) {
	defer func() { // see readParquet
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged: %v", p)
		}
	}()
	file, err := openParquet(f, f.Size())
	if err != nil {
		return err
	}
	if _, _, err := manifestColumns(file, rec); err != nil {
		return err
	}
	r := parquet.NewGenericReader[any](file)
	defer r.Close()
	rec.line, rec.unit = 0, "row"
	rows := make([]any, 64)
	for {
		n, err := r.Read(rows)
		for _, row := range rows[:n] {
			rec.line++
			if err := rec.takeRow(row); err != nil {
				return err
			}
			if err := emit(); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// takeRow sets the record's fields to those of a row.
func (r *record) takeRow(row any) error {
	all, ok := row.(map[string]any)
	if !ok {
		return fmt.Errorf("it is a %T", row)
	}
	for name, value := range all {
		to := r.field(name)
		if to == nil || name == "file_name" && all["path"] != nil {
			continue
		}
		if text, ok := value.(string); ok && to != r.others[name] {
			*to = text
			continue
		}
		text, err := json.Marshal(plain(value))
		if err != nil {
			return fmt.Errorf("column %q: %w", name, err)
		}
		if *to = string(text); *to == "null" {
			*to = ""
		}
	}
	return nil
}

// plain is a value of Parquet without the groups that it has for lists.
func plain(value any) any {
	switch v := value.(type) {
	case []byte:
		return string(v)
	case float32:
		return plain(float64(v))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil // which JSON does not have
		}
	case []any:
		for k := range v {
			v[k] = plain(v[k])
		}
	case map[string]any:
		if inner, is := v["list"]; is && len(v) == 1 {
			list, _ := inner.([]any)
			for k := range list {
				if item, ok := list[k].(map[string]any); ok && len(item) == 1 {
					for _, only := range item {
						list[k] = only
					}
				}
				list[k] = plain(list[k])
			}
			return list
		}
		for name := range v {
			v[name] = plain(v[name])
		}
	}
	return value
}
