package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"unsafe"

	"github.com/parquet-go/parquet-go"
)

var errDictionary = errors.New("a dictionary is missing, or a value in it")

// readIndex reads an index of src. Columns are decoded page by page straight into the table,
// which is allocated at its final size, so loading a large index leaves almost no garbage.
func readIndex(ctx context.Context, f *os.File, src *source) (x *index, err error) {
	// This package wrote the file and its checksum matches, but that is no proof that its
	// content is sane.
	defer func() {
		if p := recover(); p != nil {
			x, err = nil, fmt.Errorf("damaged: %v", p)
		}
	}()
	file, err := openParquet(f)
	if err != nil {
		return nil, err
	}
	if x, err = readMetadata(file.Lookup, src); err != nil {
		return nil, err
	}
	if int64(x.facts.Rows) != file.NumRows() || x.facts.Rows > math.MaxInt32 {
		return nil, fmt.Errorf("%d rows instead of %d", file.NumRows(), x.facts.Rows)
	}
	if err := cmp.Or(x.facts.bounded(file.Size()), checkPages(f, file.Size(), file)); err != nil {
		return nil, err
	}
	l := &tableLoader{table: newStore(x.facts.Rows, x.facts.PathBytes), facts: &x.facts, classes: len(x.classes)}
	for _, group := range file.RowGroups() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := l.group(file, group); err != nil {
			return nil, err
		}
	}
	x.table = l.table
	l.bad.store(x.table)
	return x, l.check(x.facts)
}

// tableLoader appends the columns of successive row groups to a table.
type tableLoader struct {
	table   *store
	facts   *facts
	classes int
	bad     problems
	row     int // rows of the problem column so far
}

func (l *tableLoader) group(file *parquet.File, group parquet.RowGroup) error {
	for _, c := range []struct {
		name string
		load func(parquet.Page) error
	}{
		{"path", l.paths},
		{"label", func(p parquet.Page) error { return loadInt32(&l.table.labels, p) }},
		{"height", func(p parquet.Page) error { return loadInt32(&l.table.heights, p) }},
		{"width", func(p parquet.Page) error { return loadInt32(&l.table.widths, p) }},
		{"orientation", func(p parquet.Page) error { return loadInt32(&l.table.orients, p) }},
		{"format", l.formats},
		{"size", func(p parquet.Page) error { return loadInt64(&l.table.sizes, p) }},
		{"mtime_ns", func(p parquet.Page) error { return loadInt64(&l.table.mtimes, p) }},
		{"problem", l.problems},
	} {
		leaf, ok := file.Schema().Lookup(c.name)
		if !ok || leaf.MaxDefinitionLevel > 0 || leaf.MaxRepetitionLevel > 0 {
			return fmt.Errorf("column %q is missing or optional", c.name)
		}
		if err := checkCodec(file, leaf.ColumnIndex); err != nil {
			return fmt.Errorf("column %q: %w", c.name, err)
		}
		if err := eachPage(group.ColumnChunks()[leaf.ColumnIndex], c.load); err != nil {
			return fmt.Errorf("column %q: %w", c.name, err)
		}
	}
	return nil
}

func eachPage(chunk parquet.ColumnChunk, load func(parquet.Page) error) error {
	pages := chunk.Pages()
	defer pages.Close()
	for n := int64(0); n < chunk.NumValues(); {
		page, err := pages.ReadPage()
		if err != nil {
			return err
		}
		n += page.NumValues()
		err = load(page)
		parquet.Release(page)
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *tableLoader) paths(p parquet.Page) error {
	t := l.table
	return eachText(p, func(path []byte) error {
		if err := l.facts.checkPath(unsafe.String(unsafe.SliceData(path), len(path))); err != nil {
			return err
		}
		if len(t.starts) == cap(t.starts) || len(t.paths)+len(path) >= cap(t.paths) {
			return fmt.Errorf("more than the %d rows announced", cap(t.starts))
		}
		t.appendPath(string(path))
		return nil
	})
}

// maxFormat is longer than the name of any format.
const maxFormat = 32

func (l *tableLoader) formats(p parquet.Page) error {
	return eachText(p, func(name []byte) error {
		t := l.table
		k := slices.IndexFunc(t.formatNames, func(n string) bool { return n == string(name) })
		if k < 0 {
			if len(name) > maxFormat {
				return fmt.Errorf("a format's name of %d bytes", len(name))
			}
			id, err := t.internFormat(string(name))
			if err != nil {
				return err
			}
			k = int(id)
		}
		t.formats = append(t.formats, uint8(k))
		return nil
	})
}

func (l *tableLoader) problems(p parquet.Page) error {
	return eachText(p, func(text []byte) error {
		if len(text) > 0 {
			l.bad.add(uint32(l.row), reason(errors.New(string(text))), false)
		}
		l.row++
		return nil
	})
}

// check verifies everything the rest of the package relies on.
func (l *tableLoader) check(f facts) error {
	t := l.table
	n := f.Rows
	for _, have := range []int{len(t.starts), len(t.labels), len(t.heights), len(t.widths),
		len(t.orients), len(t.formats), len(t.sizes), len(t.mtimes), l.row} {
		if have != n {
			return fmt.Errorf("a column of %d rows instead of %d", have, n)
		}
	}
	if t.pathBytes() != f.PathBytes {
		return fmt.Errorf("%d bytes of paths instead of %d", t.pathBytes(), f.PathBytes)
	}
	for i := range n {
		if t.labels[i] < -1 || t.heights[i] < 0 || t.widths[i] < 0 || t.orients[i] > 8 || t.sizes[i] < 0 ||
			l.classes > 0 && int(t.labels[i]) >= l.classes {
			return fmt.Errorf("row %d makes no sense", i)
		}
	}
	return nil
}

// loadInt32 appends a page of required 32-bit values.
func loadInt32[T int32 | uint8](dst *[]T, p parquet.Page) error {
	data := p.Data()
	dict := p.Dictionary()
	if dict == nil {
		for _, v := range data.Int32() {
			*dst = append(*dst, T(v))
		}
		return nil
	}
	words := dict.Page().Data()
	values := words.Int32()
	for _, k := range data.Int32() {
		if k < 0 || int(k) >= len(values) {
			return errDictionary
		}
		*dst = append(*dst, T(values[k]))
	}
	return nil
}

// loadInt64 appends a page of required 64-bit values.
func loadInt64(dst *[]int64, p parquet.Page) error {
	if p.Dictionary() != nil {
		return errDictionary
	}
	data := p.Data()
	*dst = append(*dst, data.Int64()...)
	return nil
}

// eachText calls f for every value of a page of required byte arrays. The bytes belong to the
// page.
func eachText(p parquet.Page, f func([]byte) error) error {
	data := p.Data()
	dict := p.Dictionary()
	if dict == nil {
		values, offsets := data.ByteArray()
		for i := 1; i < len(offsets); i++ {
			if err := f(values[offsets[i-1]:offsets[i]]); err != nil {
				return err
			}
		}
		return nil
	}
	words := dict.Page().Data()
	values, offsets := words.ByteArray()
	for _, k := range data.Int32() {
		if k < 0 || int(k)+1 >= len(offsets) {
			return errDictionary
		}
		if err := f(values[offsets[k]:offsets[k+1]]); err != nil {
			return err
		}
	}
	return nil
}
