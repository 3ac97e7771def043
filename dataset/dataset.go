package dataset

import (
	"path/filepath"
	"time"
	"unsafe"

	"github.com/batchfs/batchfs/internal/store"
)

// Dataset is an opened dataset. Its samples are numbered from 0 in the dataset's order; an
// out-of-range number panics, like a slice index. All methods may be called concurrently.
type Dataset struct {
	Description
	*source
	*reader
	kept      *Kept
	indexFile string // "": none
}

// A Description says what a dataset is. It must not be changed.
type Description struct {
	Name     string   // where the dataset is: the path or the URL of its directory, its manifest or its archives
	Entries  []string // of a list of several datasets, the names of theirs
	Root     string   // that paths are relative to; see [Dataset.Path]
	Manifest string   // absolute path of the manifest; "": there is none
	// IndexPath is the path of the index file, "" if none is kept; for a list of several datasets,
	// the directory of theirs.
	IndexPath string
	Remote    bool // samples are in a store
	Packed    bool // samples are inside files that hold many
	// Ordered means that the samples have an order of their own, like those of a manifest or of a
	// WebDataset. Otherwise order and labels are those of a directory of their paths.
	Ordered bool
	// Classes are the class names by label. They are nil for a flat directory and for a manifest
	// whose labels are numbers.
	Classes []string
	// ModTime is the newest modification time among the files, directories and manifest that were
	// indexed. It is stable for as long as the index is.
	ModTime time.Time
	// Digest identifies the indexed content: classes, paths, labels, sizes and formats, but not
	// times. It is 64 hexadecimal digits.
	Digest string
	Left   int    // images that are no samples, because Options.Only does not want them
	Report Report // on what the dataset is, and what opening it took
}

// describe describes what was opened.
func (p *opening) describe(x *index) Description {
	src := p.src
	d := Description{
		Name: src.name(), Root: src.dir, IndexPath: p.files.made, Remote: len(src.stores) > 0, Packed: x.table.members != nil,
		Ordered: src.manifest != "" || x.Ordered, Classes: x.classes, ModTime: time.Unix(0, x.ModTime), Digest: x.Digest, Report: p.report,
	}
	for _, e := range src.entries {
		d.Entries = append(d.Entries, e.name())
	}
	if src.entries != nil && d.IndexPath != "" {
		d.IndexPath = filepath.Dir(d.IndexPath)
	}
	if src.manifest != "" {
		d.Manifest = d.Name
	}
	return d
}

// Close ends the use of the dataset. A read still in progress, for example on a hung storage,
// continues; files can no longer be opened.
func (d *Dataset) Close() error {
	d.closed.Store(true)
	return d.source.close()
}

// InStore says whether sample i is in a store.
func (d *Dataset) InStore(i int) bool { return d.storageOf(i).src.remote != nil }

// Requests counts what stores were asked; nil if the samples are in none.
func (d *Dataset) Requests() *store.Stats {
	if !d.Remote {
		return nil
	}
	var all store.Stats
	for _, s := range d.stores {
		all.Add(s.Stats())
	}
	return &all
}

// Held is when a store last had reads wait because it answered nobody, or accepted fewer requests
// than there were; now, if it still does, and zero if none ever did.
func (d *Dataset) Held() (last time.Time) {
	for _, s := range d.stores {
		if held, _ := s.Held(); held.After(last) {
			last = held
		}
	}
	return last
}

// IsAway says whether sample i is in a store that answers nobody now.
func (d *Dataset) IsAway(i int) bool {
	s := d.storageOf(i).src.remote
	if s == nil {
		return false
	}
	_, away := s.Held()
	return away
}

// Len is the number of samples, at least 1.
func (d *Dataset) Len() int { return d.table.rows() }

// Path is sample i's path relative to the root, which is a directory: absolute, with symbolic links
// resolved. In a store, it is a URL, or the beginning of one; for a list of datasets that have
// nothing in common it is empty. A path may contain any byte but NUL, and shares the dataset's
// memory.
func (d *Dataset) Path(i int) string { return d.table.path(i) }

// Label is sample i's label, -1 if it has none.
func (d *Dataset) Label(i int) int { return int(d.table.row[i].label) }

// Size is sample i's size in pixels: upright, or as stored if ignoreOrientation is set. For a
// sample that has a Problem or is Unread it is the size from the manifest, else 0, 0.
func (d *Dataset) Size(i int, ignoreOrientation bool) (height, width int) {
	height, width = int(d.table.row[i].height), int(d.table.row[i].width)
	if height == 0 || width == 0 { // a manifest may give only one of them
		return 0, 0
	}
	if ignoreOrientation && d.table.row[i].orient >= 5 {
		return width, height
	}
	return height, width
}

// Orientation is how sample i is stored, by EXIF: 1 upright, to 8; 0 if that is not known.
func (d *Dataset) Orientation(i int) uint8 { return d.table.row[i].orient }

// Format is sample i's format as the Prober or the manifest named it, "" if the sample has a
// Problem or is Unread.
func (d *Dataset) Format(i int) string { return d.table.format(i) }

// Problem is what was wrong with sample i's file when it was indexed, "" if nothing was. The
// fault lies with the file, as judged by package fault and the Prober; for the machine's faults see
// Unread.
func (d *Dataset) Problem(i int) string { return d.table.problem(i, false) }

// Unread is why the machine could not read sample i's file when it was indexed, "" if it could.
// Neither the size nor the format of such a file is known, and the next Open tries it again.
func (d *Dataset) Unread(i int) string { return d.table.problem(i, true) }

// MemoryBytes is how much memory the dataset holds.
func (d *Dataset) MemoryBytes() int64 {
	n := int64(unsafe.Sizeof(*d)) + d.table.memory()
	requests := int64(0) // of all stores together there are not more than of one
	for _, s := range d.stores {
		requests = max(requests, s.MemoryBytes())
	}
	n += requests
	if d.kept != nil {
		n += 4 * int64(len(d.kept.earlier))
	}
	if d.local != nil {
		n += d.local.tier.MemoryBytes()
	}
	for _, c := range d.Classes {
		n += int64(len(c)) + int64(unsafe.Sizeof(c))
	}
	return n
}
