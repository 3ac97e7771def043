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
	*source
	*reader
	kept      *Kept
	classes   []string
	digest    string
	modTime   int64
	report    Report
	indexFile string
	ordered   bool
}

// Close ends the use of the dataset. A read still in progress, for example on a hung storage,
// continues; files can no longer be opened.
func (d *Dataset) Close() error {
	d.closed.Store(true)
	return d.source.close()
}

// Name is where the dataset is: the path or the URL of its directory, its manifest or its archives.
func (d *Dataset) Name() string { return d.name() }

// Entries are where the datasets of a list of several are, as Name is of one.
func (d *Dataset) Entries() (names []string) {
	for _, e := range d.entries {
		names = append(names, e.name())
	}
	return names
}

// Remote says whether samples are in a store.
func (d *Dataset) Remote() bool { return len(d.stores) > 0 }

// InStore says whether sample i is in a store.
func (d *Dataset) InStore(i int) bool { return d.storageOf(i).src.remote != nil }

// Requests counts what stores were asked; nil if the samples are in none.
func (d *Dataset) Requests() *store.Stats {
	if !d.Remote() {
		return nil
	}
	var all store.Stats
	for _, s := range d.stores {
		all.Add(s.Stats())
	}
	return &all
}

// Held is when a store last had reads wait because it answered nobody, or accepted fewer requests than there were; now, if it
// still does, and zero if none ever did.
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

// Packed says whether samples are inside files that hold many.
func (d *Dataset) Packed() bool { return d.table.members != nil }

// Ordered says whether the samples have an order of their own, like those of a manifest or of a WebDataset. Otherwise order
// and labels are those of a directory of their paths.
func (d *Dataset) Ordered() bool { return d.ordered }

// Root is the directory that paths are relative to: absolute, with symbolic links resolved. In a store, it
// is a URL, or the beginning of one; for a list of datasets that have nothing in common it is empty.
func (d *Dataset) Root() string { return d.dir }

// Manifest is the absolute path of the dataset's manifest, "" if it has none.
func (d *Dataset) Manifest() string {
	if d.manifest == "" {
		return ""
	}
	return d.name()
}

// Len is the number of samples, at least 1.
func (d *Dataset) Len() int { return d.table.rows() }

// Path is sample i's path relative to the root. It may contain any byte but NUL, and shares the
// dataset's memory.
func (d *Dataset) Path(i int) string { return d.table.path(i) }

// Label is sample i's label, -1 if it has none.
func (d *Dataset) Label(i int) int { return int(d.table.row[i].label) }

// Classes are the class names by label. It is nil for a flat directory and for a manifest whose
// labels are numbers. The caller must not modify it.
func (d *Dataset) Classes() []string { return d.classes }

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

// IsUpright reports whether sample i is known to be stored upright.
func (d *Dataset) IsUpright(i int) bool { return d.table.row[i].orient == 1 }

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

// ModTime is the newest modification time among the files, directories and manifest that were
// indexed. It is stable for as long as the index is.
func (d *Dataset) ModTime() time.Time { return time.Unix(0, d.modTime) }

// Digest identifies the indexed content: classes, paths, labels, sizes and formats, but not
// times. It is 64 hexadecimal digits.
func (d *Dataset) Digest() string { return d.digest }

// Report says what the dataset is and what opening it took. The caller must not modify its
// maps.
func (d *Dataset) Report() Report { return d.report }

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
	for _, c := range d.classes {
		n += int64(len(c)) + int64(unsafe.Sizeof(c))
	}
	return n
}

// IndexPath is the path of the index file, "" if none is kept; for a list of several datasets, the directory of theirs.
func (d *Dataset) IndexPath() string {
	if d.entries != nil && d.indexFile != "" {
		return filepath.Dir(d.indexFile)
	}
	return d.indexFile
}
