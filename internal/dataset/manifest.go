package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/store"
)

// record is one row of a manifest as written. The strings are valid only until the next record, so
// callers copy what they keep.
type record struct {
	line   int                      // line of the text, from 1; for Parquet, the row; 0: none yet
	unit   string                   // "line" or "row"
	column string                   // name of the column of labels
	paths  string                   // name of the column of paths, if only that is read; "": the usual one
	inside bool                     // the file holds the images: it has no columns of paths and formats
	others map[string]*string       // columns without a field here, by name; nil: ignored
	wanted func(column string) bool // says which columns of Parquet are read; nil: all with a field
	// whole has the columns without a field that have values, and whether these are whole numbers,
	// and so may be labels; nil: nobody asks.
	whole  map[string]bool
	rows   int // how many the file says that it has; 0: it does not
	path   string
	label  string // "" : none
	kind   labelKind
	height string // "" : not given, as for width and format
	width  string
	format string
}

// field returns where the value of a column goes, nil if the column is ignored.
func (r *record) field(name string) *string {
	switch {
	case r.paths != "":
		if name == r.paths {
			return &r.path
		}
		return nil
	case name == r.column:
		return &r.label
	case name == "height":
		return &r.height
	case name == "width":
		return &r.width
	case r.inside:
	case name == "path", name == "file_name":
		return &r.path
	case name == "format":
		return &r.format
	}
	if r.others == nil || name == "" {
		return nil
	}
	if r.others[name] == nil {
		r.others[name] = new(string)
	}
	return r.others[name]
}

// other notes a value of a column without a field.
func (r *record) other(name, value string) {
	if value == "" || name == "" {
		return
	}
	before, known := r.whole[name]
	_, whole := parseInteger(value)
	r.whole[name] = whole && (before || !known)
}

// errNoPath: a manifest does not say where the images are. Hugging Face calls the column file_name.
var errNoPath = errors.New(`no "path" or "file_name"`)

// at prefixes an error with the record's place in the manifest.
func (r *record) at(err error) error {
	if r.line == 0 {
		return err
	}
	return fmt.Errorf("%s %d: %w", r.unit, r.line, err)
}

// recordReader reads a manifest into one record after another, and calls emit for each. If it
// fails, the record's place says where.
type recordReader func(f *io.SectionReader, r *record, emit func() error) error

// manifestReader returns the reader for a manifest's extension, or nil.
func manifestReader(name string) recordReader {
	return map[string]recordReader{
		".csv": readCSV, ".jsonl": readJSONL, ".parquet": readParquet,
	}[strings.ToLower(filepath.Ext(name))]
}

// manifest turns records into rows.
type manifest struct {
	*opening
	record
	labels labelSet
	out    *index
	read   counted
}

// listManifest lists a manifest. Rows that give height, width and format need no scan.
func (p *opening) listManifest() (*index, error) {
	name := p.src.name()
	now := time.Now()
	o, err := p.storage.find(p.ctx, p.src.manifest)
	if err != nil {
		return nil, err
	}
	f, err := p.storage.openWhole(o)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer p.storage.close(&f)
	m := &manifest{opening: p, out: &index{table: newTable(0, 0)}, read: counted{&section{p.ctx, p.storage, f}, 0}}
	m.column, m.paths = cmp.Or(p.src.labels, "label"), p.PathColumn
	if m.paths == "" && p.src.labels == "" {
		m.whole = map[string]bool{}
	}
	m.out.Stamp, m.out.ManifestSize = newStamp(time.Unix(0, o.id.ModTime), now), o.id.Size
	m.out.Stamp.Unsettled = m.out.Stamp.Unsettled && p.src.remote == nil
	text := io.NewSectionReader(&m.read, 0, o.id.Size)
	switch err = manifestReader(name)(text, &m.record, m.add); {
	case err != nil:
		err = m.record.at(err)
	case p.src.labels != "" && p.src.labels != archive.NoLabel && m.labels.first == nil:
		err = fmt.Errorf("%w: no row has one in a column %q", ErrColumn, m.column)
	default:
		for name, whole := range m.whole {
			if whole {
				m.out.Numbers = append(m.out.Numbers, name)
			}
		}
		slices.Sort(m.out.Numbers)
		m.out.classes, err = m.labels.resolve(m.out.table)
	}
	switch {
	case err == nil:
		return m.out, nil
	case p.ctx.Err() != nil:
		return nil, p.ctx.Err()
	case errors.As(err, new(unix.Errno)): // an error of the file system, not of the manifest
		return nil, fmt.Errorf("%s: %w", name, err)
	case errors.Is(err, ErrAway):
		return nil, err
	}
	return nil, fmt.Errorf("%s: %w: %w", name, ErrManifest, err)
}

// add appends a row for the record. If the record gives size and format, no scan is needed, and the
// size is checked when the file is read; otherwise the scan checks it. The given size is that of
// the upright image, as batchfs reports it.
func (m *manifest) add() error {
	path := m.path
	if path == "" && m.PathColumn != "" {
		return nil
	}
	if m.src.remote != nil {
		path = strings.TrimPrefix(path, m.src.dir)
	}
	if store.IsURL(path) {
		return errors.New("the path is a URL, and not one below the folder of the manifest; put the manifest into the store, into a folder above all images")
	}
	name, outside, err := cleanPath(path)
	if err != nil {
		return err
	}
	if outside && (!m.AllowOutside || m.src.remote != nil) {
		return fmt.Errorf("%q: %w", m.path, ErrOutside)
	}
	m.out.Outside = m.out.Outside || outside
	label, err := m.labels.intern(&m.record)
	if label >= 0 {
		m.whole = nil // there are labels
	}
	height, errHeight := parseExtent("height", m.height)
	width, errWidth := parseExtent("width", m.width)
	format, errFormat := parseFormat(m.format)
	if err := cmp.Or(err, errHeight, errWidth, errFormat); err != nil {
		return err
	}
	t := m.out.table
	if t.rows()%1024 == 0 && m.ctx.Err() != nil {
		return m.ctx.Err()
	}
	m.makeRoom()
	if err := t.appendRow(name, label); err != nil {
		return err
	}
	if m.src.remote != nil {
		t.versions.add(t.rows() - 1)
	}
	row := &t.row[t.rows()-1]
	row.height, row.width = height, width
	if height != 0 && width != 0 && format != 0 {
		row.orient, row.format = 1, format
	}
	return nil
}

// manyBytes is how much of a manifest is read before the number of its rows is estimated.
const manyBytes = 16 << 20

// makeRoom makes room in a large table for all rows that are probably left. Growing little by
// little would take up to twice the memory, as the old rows are copied.
func (m *manifest) makeRoom() {
	t := m.out.table
	n := t.rows()
	if n < cap(t.row) || n < manyBytes/int(unsafe.Sizeof(sample{})) {
		return
	}
	all := m.rows
	if read := m.read.n - maxLine; all == 0 && read >= manyBytes { // maxLine bytes may be read ahead
		all = int(float64(n) * float64(m.out.ManifestSize) / float64(read))
	}
	if more := min(all, 8*n) - n; more > 0 { // the file may say anything
		t.row = slices.Grow(t.row, max(more, n/32))
		t.paths = slices.Grow(t.paths, int(float64(len(t.paths))*float64(more)/float64(n)))
	}
}

// cleanPath returns the path to open, and whether it leaves its directory. Paths of manifests and
// of stored indexes go through it. "a/../b" becomes "b" whatever "a" is, so that no link on the way
// can redirect it.
func cleanPath(p string) (clean string, outside bool, err error) {
	switch {
	case p == "":
		return "", false, errors.New("path is empty")
	case len(p) > maxPath:
		return "", false, fmt.Errorf("path is longer than %d bytes", maxPath)
	case strings.IndexByte(p, 0) >= 0:
		return "", false, errors.New("path holds a NUL byte")
	}
	clean = path.Clean(p)
	if clean == "." || clean == "/" {
		return "", false, fmt.Errorf("path %q names a directory", p)
	}
	return clean, !filepath.IsLocal(clean), nil
}

func parseExtent(field, text string) (int32, error) {
	if text == "" {
		return 0, nil
	}
	n, ok := parseInteger(text)
	if !ok || n < 1 || n > math.MaxInt32 {
		return 0, fmt.Errorf("%s %q is not a whole number from 1 to %d", field, text, math.MaxInt32)
	}
	return int32(n), nil
}

// parseFormat accepts the names and extensions of supported formats.
func parseFormat(text string) (uint8, error) {
	name := strings.ToLower(text)
	switch name {
	case "jpg":
		name = "jpeg"
	case "ppm", "pgm":
		name = "pnm"
	case "bfs":
		name = "packed"
	}
	number, ok := formatNumber(name)
	if !ok || number >= ofImages {
		return 0, fmt.Errorf("format %q is not one of %s", text, strings.Join(formats[1:ofImages], ", "))
	}
	return number, nil
}

// parseInteger reads a whole number, including "3.0", as written by tools that have only floating
// point.
func parseInteger(text string) (int64, bool) {
	if dot := strings.IndexByte(text, '.'); dot > 0 && strings.Trim(text[dot+1:], "0") == "" {
		text = text[:dot]
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}
