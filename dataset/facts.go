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

// What is known of a dataset is in files of package facts, whose names begin alike:
//
//	BASE.facts                  everything, as of the last listing
//	BASE-00001-of-00004.facts   what a part has learned
//	BASE.facts.new-1234         what an opening has learned that is under way, or was interrupted
//
// A file begins with what it is about. Rows of files and of objects that are samples follow one
// another; those of an archive follow what else is known of it, with the names that they have
// there. Only a file with a listing at its end is of use by itself; of any other, and of one that
// is not current, [known] takes what is true of a new listing.

const (
	factsExtension = ".facts"
	journalMark    = ".new-"
)

// factsVersion names the layout, and the rules for listing datasets and judging headers. What is of
// another version is learned again.
const factsVersion = "13"

// Kinds of records.
const (
	aboutRecord   = 'A'
	objectRecord  = 'O'
	rowsRecord    = 'R' // of the object before, or without one, of files
	orderRecord   = 'S' // rows in their order, as differences
	listingRecord = 'L'
)

// about is a file's first record.
type about struct {
	Version   string `json:"version"`
	Source    []byte `json:"dataset"`
	Rows      int    `json:"rows"` // for which there should be room, and for the bytes of their paths
	PathBytes int64  `json:"path_bytes"`
	Outside   bool   `json:"outside"` // some path leaves the root
}

// objectFact is what is known of an archive besides its rows. JSON cannot hold names as they are:
// they may hold any byte.
type objectFact struct {
	Name      []byte         `json:"name"`
	Version   string         `json:"version,omitempty"`
	Size      int64          `json:"size"`
	ModTime   int64          `json:"mtime_ns"`
	Unsettled bool           `json:"unsettled,omitempty"` // see stamp
	Ordered   bool           `json:"ordered,omitempty"`   // as are the following, see archive.Contents
	Unended   bool           `json:"unended,omitempty"`
	Ignored   map[string]int `json:"ignored,omitempty"`
	Folders   [][]byte       `json:"folders,omitempty"`
	Numbers   []string       `json:"numbers,omitempty"`
	Classes   [][]byte       `json:"classes,omitempty"`
	Names     [][]byte       `json:"names,omitempty"` // of classes that labels are numbers of
	Same      bool           `json:"same,omitempty"`  // Classes and Names are those of the object before
	Rows      int            `json:"rows,omitempty"`  // that the object has
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
	before *contents // of the object before; nil: none
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

// object writes what is known of an object, before its rows.
func (w *factsWriter) object(o object, c *contents) {
	f := objectFact{
		Name: []byte(o.name), Version: o.version, Size: o.id.Size, ModTime: o.id.ModTime, Unsettled: c.unsettled,
		Ordered: c.Ordered, Unended: c.Unended, Ignored: c.Ignored, Numbers: c.Numbers, Rows: c.hi - c.lo,
		Folders: bytesOf(slices.Sorted(maps.Keys(c.Folders))),
	}
	if b := w.before; b != nil && slices.Equal(b.Classes, c.Classes) && slices.Equal(b.names, c.names) {
		f.Same = true
	} else {
		f.Classes, f.Names = bytesOf(c.Classes), bytesOf(c.names)
	}
	w.before = c
	w.json(objectRecord, f)
	w.rows(c.table, span(c.lo, c.hi))
}

// everything writes all of an index but its listing.
func (w *factsWriter) everything(x *index) {
	for k := range x.objects {
		w.object(x.table.objects[k], &x.objects[k])
	}
	if x.objects == nil {
		w.rows(x.table, span(0, x.table.rows()))
	}
}

func span(lo, hi int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := lo; i < hi && yield(i); i++ {
		}
	}
}

// orderStep is how many rows of an order are in one record.
const orderStep = 1 << 16

func (w *factsWriter) listing(x *index, order []int32) {
	last := int32(0)
	for part := range slices.Chunk(order, orderStep) {
		var e facts.Encoder
		for _, i := range part {
			e.Int(int64(i - last))
			last = i
		}
		w.Put(orderRecord, e.Bytes)
	}
	w.json(listingRecord, x.listing)
}

// saveFacts writes a file of an index, with the listing if whole, for which the rows have to be put
// in order.
func saveFacts(ctx context.Context, x *index, path string, src *source, whole bool) error {
	return owned.Replace(path, func(f *os.File) error {
		w := newFactsWriter(f, about{Rows: x.table.rows(), PathBytes: int64(len(x.table.paths)), Outside: x.Outside}, src)
		w.everything(x)
		if err := cmp.Or(w.Flush(), ctx.Err()); err != nil {
			return err
		}
		if whole {
			var order []int32
			if x.order != nil {
				order = x.order.rows
			}
			x.settle()
			w.listing(x, order)
		}
		return w.Flush()
	})
}

// A factsReader makes an index of a file.
type factsReader struct {
	*index
	ctx    context.Context
	src    *source
	size   int64 // of the file
	began  bool
	sorted []int32 // rows in their order
}

var errForeign = errors.New("it is of another version, or of another dataset")

// loadFacts reads a file. With an error, it returns what can be used of it, nil if that is nothing.
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

// record uses a record of the file. After an error, what the records before it said can be used.
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
		return r.addRows(payload)
	case orderRecord:
		return r.addOrder(payload)
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
	r.began, r.Outside = true, a.Outside
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
	c := contents{table: t, lo: t.rows(), hi: t.rows(), rows: f.Rows, unsettled: f.Unsettled}
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

// addRows adds a block; to the object before, if there are objects.
func (r *factsReader) addRows(payload []byte) error {
	t := r.table
	if t.objects == nil {
		return t.appendBlock(payload, -1, r.checkPath)
	}
	anyName := func(string) error { return nil } // names are checked when they are paths
	c := &r.objects[len(r.objects)-1]
	err := t.appendBlock(payload, len(r.objects)-1, anyName)
	c.hi = t.rows()
	return err
}

func (r *factsReader) addOrder(payload []byte) error {
	d, last := facts.Decoder{Bytes: payload}, int64(0)
	if n := len(r.sorted); n > 0 {
		last = int64(r.sorted[n-1])
	}
	for len(d.Bytes) > 0 {
		if last += d.Int(); last < 0 || last >= int64(r.table.rows()) || d.Bad || len(r.sorted) == r.table.rows() {
			return errRows
		}
		r.sorted = append(r.sorted, int32(last))
	}
	return nil
}

// finish takes the listing, which makes the file one of the whole dataset.
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
	if t.objects != nil {
		if err := r.finishOrder(); err != nil {
			return err
		}
	}
	r.listed = true
	return nil
}

// finishOrder takes the order of archives' rows, and their labels where these follow from it.
func (r *factsReader) finishOrder() error {
	r.order = &order{rows: r.sorted, skip: r.Skip, named: r.Ordered && len(r.objects) > 1}
	if !r.Ordered {
		for i := range r.table.row {
			r.table.row[i].label = outside
		}
		rest := r.sorted
		if len(r.Counts) != max(1, len(r.classes)) || r.Skip < 0 {
			return errCounts
		}
		for class, n := range r.Counts {
			if n < 0 || n > len(rest) {
				return errCounts
			}
			label := int32(class)
			if len(r.classes) == 0 {
				label = -1
			}
			for _, i := range rest[:n] {
				if r.table.row[i].label != outside || len(r.table.path(int(i))) < r.Skip {
					return errRows
				}
				r.table.row[i].label = label
			}
			rest = rest[n:]
		}
		if len(rest) > 0 || len(r.sorted) == 0 {
			return errCounts
		}
	} else if r.sorted != nil {
		return errRows
	}
	return r.checkNames()
}
