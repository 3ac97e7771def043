package dataset

import (
	"sync"
	"time"
	"unsafe"
)

// Dataset is an opened dataset. Its samples are numbered from 0 in the
// dataset's order; a number outside it panics, as an index into a slice does.
// All methods may be called concurrently.
type Dataset struct {
	roots     *roots
	storage   *storage
	table     *store
	classes   []string
	digest    string
	modTime   int64
	report    Report
	indexFile string

	learning sync.Mutex // held while an identity becomes known or is replaced
}

func newDataset(p *opening, x *index) *Dataset {
	d := &Dataset{
		roots: p.roots, storage: p.storage, table: x.table, classes: x.classes,
		digest: x.facts.Digest, modTime: x.facts.ModTime, report: p.report, indexFile: p.indexFile,
	}
	d.report.Classes = len(x.classes)
	d.report.IgnoredBy = x.facts.Ignored
	for _, n := range x.facts.Ignored {
		d.report.Ignored += n
	}
	d.report.count(x.table)
	return d
}

// Close ends the use of the dataset. A read that is still running, since the storage
// hangs, goes on; files that are to be read afterwards cannot be.
func (d *Dataset) Close() error {
	d.roots.close()
	return nil
}

// Root is the directory that paths are relative to, absolute and without links.
func (d *Dataset) Root() string { return d.roots.path }

// Len is the number of samples, at least 1.
func (d *Dataset) Len() int { return d.table.rows() }

// Path is sample i's path from the root. It may hold any byte but NUL, and
// shares the dataset's memory.
func (d *Dataset) Path(i int) string { return d.table.path(i) }

// Label is sample i's label, -1 if it has none.
func (d *Dataset) Label(i int) int { return int(d.table.labels[i]) }

// Classes are the class names by label, nil where there are none: in a flat
// directory, or where a manifest's labels are numbers. Not to be written to.
func (d *Dataset) Classes() []string { return d.classes }

// Size is sample i's size in pixels, upright, or as stored if ignoreOrientation.
// Where the sample has a Problem or is Unread it is what a manifest says, else 0, 0.
func (d *Dataset) Size(i int, ignoreOrientation bool) (height, width int) {
	height, width = int(d.table.heights[i]), int(d.table.widths[i])
	if height == 0 || width == 0 { // a manifest may have given one of them
		return 0, 0
	}
	if ignoreOrientation && d.table.orients[i] >= 5 {
		return width, height
	}
	return height, width
}

// Format is sample i's format as the Prober or the manifest named it, "" where
// the sample has a Problem or is Unread.
func (d *Dataset) Format(i int) string { return d.table.formatNames[d.table.formats[i]] }

// Problem is what was wrong with sample i's file when it was indexed, "" if nothing
// was. It is the file's fault, as [OfFile] and the Prober say; see Unread.
func (d *Dataset) Problem(i int) string {
	text, unread := d.table.problem(i)
	if unread {
		return ""
	}
	return text
}

// Unread is why the machine could not read sample i's file when it was indexed, "" if
// it could. Nothing is known of the file then, neither its size nor its format, and
// the next Open tries again.
func (d *Dataset) Unread(i int) string {
	text, unread := d.table.problem(i)
	if unread {
		return text
	}
	return ""
}

// Stat is sample i's indexed identity. It is not Known where the file could not
// be read, or where a manifest gave its header and it was not read yet.
func (d *Dataset) Stat(i int) Identity {
	d.learning.Lock()
	defer d.learning.Unlock()
	id, _ := d.table.identity(i)
	return id
}

// ModTime is the newest modification time of what was indexed: files,
// directories, manifest. It stays the same while the index does.
func (d *Dataset) ModTime() time.Time { return time.Unix(0, d.modTime) }

// Digest identifies the dataset's content as far as it is indexed: classes,
// paths, labels, sizes, formats; not times. 64 hexadecimal digits.
func (d *Dataset) Digest() string { return d.digest }

// Report says what the dataset is and what opening it took. Its maps are not to
// be written to.
func (d *Dataset) Report() Report { return d.report }

// MemoryBytes is what the dataset holds in memory.
func (d *Dataset) MemoryBytes() int64 {
	n := int64(unsafe.Sizeof(*d)) + d.table.memory()
	for _, c := range d.classes {
		n += int64(len(c)) + int64(unsafe.Sizeof(c))
	}
	return n
}

// IndexPath is the file that holds the index, "" if none is kept.
func (d *Dataset) IndexPath() string { return d.indexFile }
