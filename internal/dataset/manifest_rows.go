package dataset

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/parallel"
	"github.com/batchfs/batchfs/internal/store"
)

// Rows are the files whose columns describe samples: a dataset's manifest, or the Parquet files
// that hold its images. Their paths have the form of [Dataset.Path].
type Rows struct {
	Name string // of the dataset
	// Version changes when the files change, unless they are Unsettled: modified so recently that
	// another change might not show.
	Version   string
	Unsettled bool
	Packed    bool // the files hold the images
	InOrder   bool // if set, Each calls take in the order of the dataset, if that is of the rows
	// Table describes the first file with rows. It is set by Look if the files are Packed.
	Table *archive.Table

	p      *opening
	files  []object
	tables []*archive.Table // by file, if Packed
}

// A Row describes an image.
type Row struct {
	Place         string            // such as "d/m.csv: line 7"
	Path          string            // of the image
	Height, Width int               // 0: not given
	Columns       map[string]string // columns that datasets do not use, as JSON; "": not given
	Bad           string            // the rule that the row breaks; "": none
}

// FindRows returns the rows of the dataset at a path, nil if it has none. The caller closes them.
// It uses the Options that say what the dataset is, and Store. It leaves errors of datasets on this
// machine to Open.
func FindRows(ctx context.Context, path string, o Options) (*Rows, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.shareStores()
	labels := o.LabelColumn
	o.LabelColumn = "" // not all files have it
	src, err := locate(ctx, strings.TrimPrefix(path, "file://"), &o)
	if err == nil {
		r := &Rows{Name: src.name(), p: &opening{Options: o, ctx: ctx, src: src, barred: errImages}}
		r.p.storage, r.p.memory = newStorage(Storage{}, src, nil, o.Logger), newAllowance(usualMemory)
		if err = r.find(); err == nil && r.files != nil {
			src.labels = labels
			return r, nil
		}
		_ = src.close()
	}
	others := errors.Is(err, ErrNotExist) || errors.Is(err, ErrKind) || errors.Is(err, ErrArchive) || errors.Is(err, errImages)
	if others || !store.IsURL(path) && !errors.Is(err, ErrManifests) && !errors.As(err, new(*AmbiguousError)) {
		err = ctx.Err()
	}
	return nil, err
}

// errImages stops the search for archives in a folder that has images.
var errImages = errors.New("it has images")

// find finds the files.
func (r *Rows) find() (err error) {
	now, src, storage := time.Now(), r.p.src, r.p.storage
	r.Packed = src.manifest == ""
	switch {
	case src.entries != nil || src.within != "":
		return nil
	case !r.Packed:
		r.files, err = storage.findAll(r.p.ctx, []string{src.manifest})
	default:
		var x *index
		if x, err = r.p.outline(); err == nil {
			r.files = x.packed
		}
	}
	isOther := func(o object) bool { return archive.ExtensionKey(o.name) != "parquet" }
	if err != nil || r.Packed && slices.ContainsFunc(r.files, isOther) {
		r.files = nil
		return err
	}
	sum := sha256.New()
	for _, o := range r.files {
		fmt.Fprintf(sum, "%q %q %v\n", o.name, o.version, o.id)
		r.Unsettled = r.Unsettled || src.remote == nil && Unsettled(time.Unix(0, o.id.ModTime), now)
	}
	r.Version = fmt.Sprintf("%x", sum.Sum(nil))
	return nil
}

// Close ends the use of the rows.
func (r *Rows) Close() error { return r.p.src.close() }

// Clean turns a path in a column into the form of [Dataset.Path].
func (r *Rows) Clean(name string) string {
	if r.p.src.remote != nil {
		name = strings.TrimPrefix(name, r.p.src.dir)
	}
	clean, _, err := cleanPath(name)
	if err != nil {
		return name // no dataset has such a path
	}
	return clean
}

// Allows returns ErrOutside for a path in a column that leaves the manifest's directory, unless the
// Options allow that.
func (r *Rows) Allows(name string) error {
	if filepath.IsLocal(r.Clean(name)) || r.p.AllowOutside && r.p.src.remote == nil {
		return nil
	}
	return ErrOutside
}

// nearColumns is how many bytes one read takes from a file in a store while images are skipped.
const nearColumns = 256 << 10

// Look finds out which columns the files have, if they are Packed.
func (r *Rows) Look(ctx context.Context) error {
	r.tables = make([]*archive.Table, len(r.files))
	err := r.eachFile(ctx, 16, func(ctx context.Context, k int, f *io.SectionReader) (err error) {
		memory := r.p.memory.holding(ctx)
		defer memory.release()
		r.tables[k], err = archive.ReadTable(ctx, f, f.Size(), archive.Options{Label: r.p.src.labels, Block: nearColumns, Memory: memory.take})
		if errors.Is(err, archive.ErrBad) {
			err = fmt.Errorf("%w: %w", ErrArchive, err)
		}
		return err
	})
	if err != nil {
		return err
	}
	for k, t := range r.tables {
		switch {
		case len(t.Names) == 0:
		case r.Table == nil:
			r.Table = t
		case t.Mask != r.Table.Mask || !maps.EqualFunc(t.Classes, r.Table.Classes, slices.Equal):
			return fmt.Errorf("%s: %w: the files do not have the same column of masks, or the same classes", r.p.src.nameOf(r.files[k].name), ErrArchive)
		}
	}
	return nil
}

// caught turns a panic into an error: the library checks most of a damaged file, but not
// everything.
func caught(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("damaged: %v", p)
	}
}

// eachFile calls f for the files, up to most at once, and adds the file's name to errors.
func (r *Rows) eachFile(ctx context.Context, most int, f func(ctx context.Context, k int, file *io.SectionReader) error) error {
	return parallel.Each(ctx, min(r.p.requests(), most), len(r.files), nil, func(ctx context.Context, items iter.Seq[int]) error {
		for k := range items {
			o := r.files[k]
			file, err := r.p.storage.openWhole(o)
			if err == nil {
				err = f(ctx, k, io.NewSectionReader(&section{ctx, r.p.storage, file}, 0, o.id.Size))
				err = cmp.Or(r.p.storage.unchanged(&file), err)
				r.p.storage.close(&file)
			}
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				return fmt.Errorf("%s: %w", r.p.src.nameOf(o.name), err)
			}
		}
		return nil
	})
}

// Bytes is the size of all files.
func (r *Rows) Bytes() (n int64) {
	for _, o := range r.files {
		n += o.id.Size
	}
	return n
}

// Each calls take for all rows, one call at a time. Rows of several files come in no defined order,
// unless InOrder is set.
// Of Packed files, it reads only the wanted columns. If progress is not nil, it is called with the
// number of further bytes done, never at the same time as take. An error of a file wraps
// ErrManifest or ErrArchive.
func (r *Rows) Each(ctx context.Context, wanted func(column string) bool, progress func(more int64), take func(*Row) error) error {
	var mu sync.Mutex
	var taken error // an error of take, not of the file
	files := 16
	if r.InOrder {
		files = 1
	}
	return r.eachFile(ctx, files, func(ctx context.Context, k int, f *io.SectionReader) error {
		name, size, told := r.files[k].name, r.files[k].id.Size, int64(0)
		tell := func(done int64) {
			mu.Lock()
			defer mu.Unlock()
			if progress != nil && done > told {
				progress(done - told)
				told = done
			}
		}
		read := &counted{f, 0}
		f = io.NewSectionReader(read, 0, size)
		rec := &record{column: cmp.Or(r.p.src.labels, "label"), others: map[string]*string{}}
		isText := strings.EqualFold(filepath.Ext(name), ".csv")
		emit := func() error {
			if rec.line%1024 == 0 {
				done := min(read.n, size)
				if r.Packed { // most of the file is skipped
					done = int64(float64(size) * min(1, float64(rec.line)/float64(len(r.tables[k].Names))))
				}
				if tell(done); ctx.Err() != nil {
					return ctx.Err()
				}
			}
			if r.Packed {
				if rec.line > len(r.tables[k].Names) {
					return errCounts
				}
				if rec.path = r.tables[k].Names[rec.line-1]; len(r.files) > 1 {
					rec.path = name + "/" + rec.path
				}
			}
			rec.path = r.Clean(rec.path)
			row, err := rec.row(isText)
			if err != nil {
				return err
			}
			row.Place = r.p.src.nameOf(name) + ": " + row.Place
			mu.Lock()
			defer mu.Unlock()
			if err = take(row); err != nil {
				taken = err
			}
			return err
		}
		fault := ErrManifest
		if r.Packed {
			t := r.tables[k]
			fault, rec.inside, rec.column = ErrArchive, true, t.Label
			rec.wanted = func(column string) bool { return slices.Contains(t.Others, column) && wanted(column) }
		}
		err := manifestReader(name)(f, rec, emit)
		if err != nil && taken == nil && ctx.Err() == nil && !errors.Is(err, ErrAway) {
			err = fmt.Errorf("%w: %w", fault, rec.at(err))
		}
		tell(size)
		return err
	})
}

// counted counts the bytes that one goroutine reads.
type counted struct {
	io.ReaderAt
	n int64
}

func (c *counted) ReadAt(p []byte, offset int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, offset)
	c.n += int64(n)
	return n, err
}

// row makes a Row of a record. isText says that its values are text, not JSON.
func (r *record) row(isText bool) (*Row, error) {
	clean, _, err := cleanPath(r.path)
	height, errHeight := parseExtent("height", r.height)
	width, errWidth := parseExtent("width", r.width)
	row := &Row{Place: fmt.Sprintf("%s %d", r.unit, r.line), Path: clean, Height: int(height), Width: int(width), Columns: map[string]string{}}
	if bad := cmp.Or(errHeight, errWidth); bad != nil {
		row.Bad = bad.Error()
	}
	for name, value := range r.others {
		if row.Columns[name] = *value; isText && *value != "" {
			quoted, _ := json.Marshal(*value) // a string always encodes
			row.Columns[name] = string(quoted)
		}
	}
	return row, err
}
