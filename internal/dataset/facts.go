package dataset

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"maps"
	"os"
	"slices"

	"github.com/batchfs/batchfs/internal/facts"
	"github.com/batchfs/batchfs/internal/owned"
)

// Facts about a dataset are in files of package facts, whose names share a beginning:
//
//	BASE.facts                  everything, as of the last listing
//	BASE-00001-of-00004.facts   what one part has learned
//	BASE.facts.new-1234         what an opening, running or interrupted, has learned
//
// The first record says what a file is about. Facts about an archive precede its rows. Only a file
// that ends with a listing is useful by itself: its rows are in the dataset's order, with their
// paths. Rows of other files have the names that samples have in archives. From those files, and
// from an index that is out of date, [known] takes what still holds for a new listing.

const (
	factsExtension = ".facts"
	journalMark    = ".new-"
)

// factsVersion names the file layout, and the rules for listing datasets and judging headers. Facts
// of another version are learned again.
const factsVersion = "14"

// Kinds of records.
const (
	aboutRecord   = 'A'
	objectRecord  = 'O'
	rowsRecord    = 'R' // rows of the objects recorded before; without any, rows of files
	listingRecord = 'L'
)

// about is the first record of a file.
type about struct {
	Version   string `json:"version"`
	Source    []byte `json:"dataset"`
	Rows      int    `json:"rows"` // how many rows to make room for, and how many bytes of paths
	PathBytes int64  `json:"path_bytes"`
	Prefix    []byte `json:"prefix,omitempty"` // see naming
	Named     bool   `json:"named,omitempty"`
}

// objectFact holds facts about an archive other than its rows. Names are bytes, because JSON cannot
// hold every name.
type objectFact struct {
	Name      []byte         `json:"name"`
	Version   string         `json:"version,omitempty"`
	Size      int64          `json:"size"`
	ModTime   int64          `json:"mtime_ns"`
	Unsettled bool           `json:"unsettled,omitempty"` // see stamp
	Ordered   bool           `json:"ordered,omitempty"`   // this field and those below: see archive.Contents
	Unended   bool           `json:"unended,omitempty"`
	Ignored   map[string]int `json:"ignored,omitempty"`
	Folders   [][]byte       `json:"folders,omitempty"`
	Numbers   []string       `json:"numbers,omitempty"`
	Classes   [][]byte       `json:"classes,omitempty"`
	Names     [][]byte       `json:"names,omitempty"` // of classes that the labels number
	Same      bool           `json:"same,omitempty"`  // Classes and Names are those of the previous object
	Rows      int            `json:"rows,omitempty"`  // rows of the object; some may not be samples
}

func bytesOf(names []string) (all [][]byte) {
	for _, name := range names {
		all = append(all, []byte(name))
	}
	return all
}

func stringsOf(names [][]byte) (all []string) {
	for _, name := range names {
		all = append(all, string(name))
	}
	return all
}

// A factsWriter writes a file about a dataset.
type factsWriter struct {
	*facts.Writer
	objects int
	before  *contents // of the previous object; nil: none
}

func (w *factsWriter) json(kind byte, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // these types always encode
	}
	w.Put(kind, text)
}

func newFactsWriter(f io.Writer, a about, src *source) *factsWriter {
	w := &factsWriter{Writer: facts.NewWriter(f)}
	a.Version, a.Source = factsVersion, []byte(src.identity())
	w.json(aboutRecord, a)
	return w
}

func (w *factsWriter) rows(t *table, rows iter.Seq[int]) {
	t.blocks(rows, func(payload []byte) { w.Put(rowsRecord, payload) })
}

// object writes the facts about an object other than its rows.
func (w *factsWriter) object(o object, c *contents) {
	f := objectFact{
		Name: []byte(o.name), Version: o.version, Size: o.id.Size, ModTime: o.id.ModTime, Unsettled: c.unsettled,
		Ordered: c.Ordered, Unended: c.Unended, Ignored: c.Ignored, Numbers: c.Numbers, Rows: c.total,
		Folders: bytesOf(slices.Sorted(maps.Keys(c.Folders))),
	}
	if b := w.before; b != nil && slices.Equal(b.Classes, c.Classes) && slices.Equal(b.names, c.names) {
		f.Same = true
	} else {
		f.Classes, f.Names = bytesOf(c.Classes), bytesOf(c.names)
	}
	w.before = c
	w.objects++
	w.json(objectRecord, f)
}

// contents writes everything that is known about an object.
func (w *factsWriter) contents(o object, c *contents) {
	t := newTable(c.len(), 0)
	t.members = make([]member, 0, c.len())
	c.addTo(t, w.objects)
	w.object(o, c)
	w.rows(t, span(t.rows()))
}

// everything writes an index except for its listing.
func (w *factsWriter) everything(x *index) {
	for k := range x.objects {
		w.object(x.table.objects[k], &x.objects[k])
	}
	w.rows(x.table, span(x.table.rows()))
}

func span(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; i < n && yield(i); i++ {
		}
	}
}

// saveFacts writes an index to a file, with the listing if whole is set.
func saveFacts(ctx context.Context, x *index, path string, src *source, whole bool) error {
	return owned.Replace(path, func(f *os.File) error {
		t := x.table
		w := newFactsWriter(f, about{Rows: t.rows(), PathBytes: int64(len(t.paths)), Prefix: []byte(x.Prefix), Named: x.Named}, src)
		w.everything(x)
		if err := cmp.Or(w.Flush(), ctx.Err()); err != nil {
			return err
		}
		if whole {
			w.json(listingRecord, x.listing)
		}
		return w.Flush()
	})
}

// A factsReader reads a file into an index.
type factsReader struct {
	*index
	ctx   context.Context
	src   *source
	size  int64 // of the file
	began bool
}

var errForeign = errors.New("it is of another version, or of another dataset")

// loadFacts reads a file. Besides an error, it returns the usable beginning of the file, nil if
// there is none.
func loadFacts(ctx context.Context, path string, src *source) (*index, error) {
	f, size, err := owned.Open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readFacts(ctx, f, size, src)
}

func readFacts(ctx context.Context, f io.Reader, size int64, src *source) (*index, error) {
	r := &factsReader{index: &index{table: newTable(0, 0)}, ctx: ctx, src: src, size: size}
	err := facts.Read(f, size, r.record)
	if err == nil && !r.began {
		err = facts.ErrDamaged
	}
	if !r.began {
		return nil, err
	}
	r.listed = r.listed && err == nil
	return r.index, err
}

// record reads one record into the index. After an error, the earlier records can still be used.
func (r *factsReader) record(kind byte, payload []byte, _ int64) (err error) {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if r.began != (kind != aboutRecord) || r.listed {
		return errRows
	}
	switch kind {
	case aboutRecord:
		return r.begin(payload)
	case objectRecord:
		return r.addObject(payload)
	case rowsRecord:
		return r.table.appendBlock(payload)
	case listingRecord:
		return r.finish(payload)
	}
	return errRows
}

func (r *factsReader) begin(payload []byte) error {
	var a about
	if json.Unmarshal(payload, &a) != nil || a.Version != factsVersion || string(a.Source) != r.src.identity() {
		return errForeign
	}
	if a.Rows < 0 || a.PathBytes < 0 {
		return errCounts
	}
	r.began, r.naming = true, naming{string(a.Prefix), a.Named}
	r.table = newTable(int(min(int64(a.Rows), r.size/8)), min(a.PathBytes, 16*r.size))
	return nil
}

func (r *factsReader) addObject(payload []byte) error {
	var f objectFact
	t := r.table
	if json.Unmarshal(payload, &f) != nil || t.objects == nil && t.rows() > 0 {
		return errRows
	}
	name := string(f.Name)
	if err := checkName(name); err != nil {
		return err
	}
	if t.objects == nil {
		t.members = make([]member, 0, cap(t.row))
	}
	c := contents{total: f.Rows, unsettled: f.Unsettled}
	c.Ordered, c.Unended, c.Ignored, c.Numbers, c.Folders = f.Ordered, f.Unended, f.Ignored, f.Numbers, map[string]bool{}
	for _, name := range f.Folders {
		c.Folders[string(name)] = true
	}
	c.Classes, c.names = stringsOf(f.Classes), stringsOf(f.Names)
	if n := len(r.objects); f.Same && n > 0 {
		c.Classes, c.names = r.objects[n-1].Classes, r.objects[n-1].names
	}
	t.objects = append(t.objects, object{name, f.Version, Identity{f.Size, f.ModTime}})
	r.objects = append(r.objects, c)
	return nil
}

// finish reads the listing, which makes the index complete.
func (r *factsReader) finish(payload []byte) error {
	t := r.table
	if json.Unmarshal(payload, &r.listing) != nil || r.Rows != t.rows() || r.Rows < 1 {
		return errCounts
	}
	if (len(r.Dirs) > 0) != (r.src.folder() && r.src.remote == nil) {
		return errForeign
	}
	for _, d := range r.Dirs {
		if err := r.checkPath(string(d.Path)); len(d.Path) > 0 && err != nil {
			return err
		}
	}
	r.classes = stringsOf(r.Classes)
	for i := range t.row {
		if len(r.classes) > 0 && int(t.row[i].label) >= len(r.classes) {
			return errRows
		}
	}
	if err := r.checkPaths(); err != nil {
		return err
	}
	r.listed = true
	return nil
}
