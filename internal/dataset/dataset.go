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
	localSamples *LocalSamples
	indexFile    string // "": none
}

// A Description says what a dataset is. It must not be changed.
type Description struct {
	Name     string   // path or URL of the dataset's directory, manifest or archives
	Entries  []string // names of the datasets of a list
	Root     string   // paths are relative to it; see [Dataset.Path]
	Manifest string   // absolute path of the manifest; "": none
	// IndexPath is the path of the index file, "" if none is kept. For a list of several datasets,
	// it is the directory of their indexes.
	IndexPath string
	Remote    bool // samples are in a store
	Packed    bool // samples are in files that each hold many
	// Ordered means that the samples have an order of their own, as in a manifest or a WebDataset.
	// Otherwise their paths determine order and labels, as in a directory.
	Ordered bool
	// Classes are the class names by label. They are nil for a flat directory and for a manifest
	// whose labels are numbers.
	Classes []string
	// ModTime is the newest modification time among the indexed files, directories and manifest. It
	// does not change while the index does not.
	ModTime time.Time
	// Digest identifies the indexed content: classes, paths, labels, sizes and formats, but not
	// times. It is 64 hexadecimal digits.
	Digest string
	Left   int    // images that Options.Only excludes
	Report Report // about the dataset, and about opening it
}

// describe describes what was opened.
func (p *opening) describe(x *index) Description {
	src := p.src
	d := Description{
		Name: src.name(), Root: src.dir, IndexPath: p.files.target, Remote: src.inStores(), Packed: x.table.members != nil,
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

// Close ends the use of the dataset. No file can be opened any more, but a read in progress, for
// example on hung storage, continues.
func (d *Dataset) Close() error {
	d.closed.Store(true)
	return d.source.close()
}

// InStore says whether sample i is in a store.
func (d *Dataset) InStore(i int) bool { return d.storageOf(i).src.remote != nil }

// Requests counts the requests to stores, also those of datasets that share them; nil if there are
// no stores.
func (d *Dataset) Requests() *store.Stats {
	stores := d.stores.all()
	if len(stores) == 0 {
		return nil
	}
	var all store.Stats
	for _, s := range stores {
		all.Add(s.Stats())
	}
	return &all
}

// Held returns when a store last made reads wait because it did not answer, or accepted fewer
// requests than were made: now if a store still does, zero if none ever did.
func (d *Dataset) Held() (last time.Time) {
	for _, s := range d.stores.all() {
		if held, _ := s.Held(); held.After(last) {
			last = held
		}
	}
	return last
}

// IsAway says whether sample i is in a store that does not answer at the moment.
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

// Path is sample i's path relative to the root. The root is an absolute directory with symbolic
// links resolved; in a store, a URL or the beginning of one; for a list of datasets that have
// nothing in common, empty. A path may contain any byte but NUL, and shares the dataset's memory.
func (d *Dataset) Path(i int) string { return d.table.path(i) }

// Label is sample i's label, -1 if it has none.
func (d *Dataset) Label(i int) int { return int(d.table.row[i].label) }

// Size is sample i's size in pixels: upright, or as stored if ignoreOrientation is set. If the
// sample has a Problem or is Unread, it is the size from the manifest, else 0, 0.
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

// Orientation is sample i's EXIF orientation: 1 (upright) to 8, or 0 if it is not known.
func (d *Dataset) Orientation(i int) uint8 { return d.table.row[i].orient }

// Format is sample i's format as the Prober or the manifest named it, "" if the sample has a
// Problem or is Unread.
func (d *Dataset) Format(i int) string { return d.table.format(i) }

// Problem says what was wrong with sample i's file when it was indexed, "" if nothing was. Package
// fault and the Prober decide that the file is at fault; Unread tells of the machine's faults.
func (d *Dataset) Problem(i int) string { return d.table.problem(i, false) }

// Unread says why the machine could not read sample i's file when it was indexed, "" if it could.
// The size and format of such a file are unknown, and the next Open tries again.
func (d *Dataset) Unread(i int) string { return d.table.problem(i, true) }

// RequestBytes is how much memory requests to stores take, also those of datasets that share them:
// all together, there are no more at once than one store may have.
func (d *Dataset) RequestBytes() (n int64) {
	for _, s := range d.stores.all() {
		n = max(n, s.MemoryBytes())
	}
	return n
}

// MemoryBytes is how much memory the dataset holds, without that of requests.
func (d *Dataset) MemoryBytes() int64 {
	n := int64(unsafe.Sizeof(*d)) + d.table.memory()
	if d.localSamples != nil {
		n += 4 * int64(len(d.localSamples.earlier))
	}
	if d.local != nil {
		n += d.local.tier.MemoryBytes()
	}
	for _, c := range d.Classes {
		n += int64(len(c)) + int64(unsafe.Sizeof(c))
	}
	return n
}
