package dataset

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// index is everything that is known about a dataset. Listing one makes an index without headers,
// and without what is in archives.
type index struct {
	table   *table
	classes []string   // in label order; nil if there are none
	packed  []object   // the archives that hold the samples, where they do
	objects []contents // what is known of them, as of table.objects
	listed  bool       // of a file: it says everything
	naming
	listing
}

// A listing is what is known besides the rows.
type listing struct {
	Rows         int            `json:"rows"` // as they are in the file
	Digest       string         `json:"digest"`
	ModTime      int64          `json:"modtime_ns"`
	Stamp        stamp          `json:"manifest_stamp"`
	ManifestSize int64          `json:"manifest_size"`
	Ignored      map[string]int `json:"ignored,omitempty"`
	Classes      [][]byte       `json:"classes"`
	Dirs         []dirStamp     `json:"directories"` // of this machine that were listed

	Outside bool `json:"outside"` // some path leaves the root
	Ordered bool `json:"ordered"` // archives have an order of their own
}

// ignore counts files that are not samples.
func (f *listing) ignore(kind string, n int) {
	if f.Ignored == nil {
		f.Ignored = map[string]int{}
	}
	if f.Ignored[kind] += n; f.Ignored[kind] == 0 {
		delete(f.Ignored, kind)
	}
}

// dirStamp is a listed directory, by its path relative to the root.
type dirStamp struct {
	Path []byte `json:"path"`
	stamp
}

// settle computes what follows from the rows.
func (x *index) settle() {
	x.Rows = x.table.rows()
	if x.Digest != "" {
		return
	}
	x.Digest, x.Classes, x.ModTime = digest(x.table, x.classes), bytesOf(x.classes), x.Stamp.Time
	for i, d := range x.Dirs {
		if i == 0 || d.Time > x.ModTime {
			x.ModTime = d.Time
		}
	}
	for _, row := range x.table.row {
		x.ModTime = max(x.ModTime, row.id.ModTime)
	}
}

// digest hashes everything a batch can depend on: the classes, then each sample's path, label,
// pixel size, orientation, format and byte size (-1: unknown), in order. Times are left out, so
// that a copy of a dataset has the same digest. The version is changed with what is hashed.
func digest(s *table, classes []string) string {
	h := sha256.New()
	w := bufio.NewWriterSize(h, 64<<10)
	w.WriteString("batchfs dataset 1\n")
	le := binary.LittleEndian
	b := le.AppendUint64(nil, uint64(len(classes)))
	for _, c := range classes {
		b = append(append(b, c...), 0)
	}
	w.Write(le.AppendUint64(b, uint64(s.rows())))
	for i, row := range s.row {
		size := row.id.Size
		if !row.id.Known() {
			size = -1
		}
		b = append(append(b[:0], s.path(i)...), 0)
		b = append(append(b, s.format(i)...), 0)
		b = le.AppendUint32(b, uint32(row.label))
		b = le.AppendUint32(b, uint32(row.height))
		b = le.AppendUint32(b, uint32(row.width))
		b = append(b, row.orient)
		b = le.AppendUint64(b, uint64(size))
		w.Write(b)
	}
	w.Flush()
	return hex.EncodeToString(h.Sum(nil))
}

// current says whether the dataset is unchanged since it was listed; false when that is not known.
// In a store, only listing shows that.
func (p *opening) current(x *index) bool {
	src := p.src
	switch {
	case x.Stamp.Unsettled || !p.sameObjects(x):
		return false
	case src.manifest != "":
		o, err := p.storage.find(p.ctx, src.manifest)
		return err == nil && o.id == Identity{x.ManifestSize, x.Stamp.Time}
	case src.folder() && src.remote != nil:
		if len(x.table.objects) == 0 || p.IndexAt != "" && !p.Rescan {
			return p.IndexAt != ""
		}
		now, err := p.listPrefix()
		return err == nil && slices.Equal(now.packed, x.table.objects)
	}
	for _, d := range x.Dirs {
		if p.ctx.Err() != nil {
			return false
		}
		info, err := os.Stat(filepath.Join(src.dir, string(d.Path)))
		if err != nil || !info.IsDir() || !d.proves(info.ModTime()) {
			return false
		}
	}
	return true
}

// sameObjects says whether the objects that hold the samples are those that were searched for them.
func (p *opening) sameObjects(x *index) bool {
	if len(x.table.objects) == 0 || p.src.folder() && p.src.remote != nil {
		return true
	}
	var now []object
	var err error
	if p.src.archives != nil {
		now, err = p.storage.archives(p.ctx)
	} else {
		now, err = p.storage.findAll(p.ctx, namesOf(x.table.objects))
	}
	return err == nil && slices.Equal(now, x.table.objects)
}

// stamp is the modification time that a directory or manifest had when it was read.
type stamp struct {
	Time int64 `json:"mtime_ns"`
	// Unsettled means that it was modified so recently that another change could leave the same
	// time. Such a stamp proves nothing.
	Unsettled bool `json:"unsettled"`
}

// newStamp judges a modification time that was seen at now, before anything was read.
func newStamp(modified, now time.Time) stamp {
	return stamp{Time: modified.UnixNano(), Unsettled: Unsettled(modified, now)}
}

// Unsettled reports whether a modification time that was seen at now is so recent that another
// change could leave the same time. Kernels stamp with a clock that ticks every 1 to 10 ms; a time
// of whole seconds suggests a file system with a resolution of one or two seconds.
func Unsettled(modified, now time.Time) bool {
	grain := 20 * time.Millisecond
	if modified.Nanosecond() == 0 {
		grain = 2100 * time.Millisecond
	}
	return modified.After(now.Add(-grain))
}

// proves says whether finding a time again means that nothing changed.
func (s stamp) proves(modified time.Time) bool { return !s.Unsettled && s.Time == modified.UnixNano() }

// checkPaths refuses paths that a manifest could not have, or that are not as they are stored.
func (x *index) checkPaths() error {
	for i := range x.table.rows() {
		if err := x.checkPath(x.table.path(i)); err != nil {
			return err
		}
	}
	return nil
}

func (x *index) checkPath(path string) error {
	clean, leaves, err := cleanPath(path)
	if err == nil && (clean != path || leaves && !x.Outside) {
		err = fmt.Errorf("%q: %w", path, ErrOutside)
	}
	return err
}
