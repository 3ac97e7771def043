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

// index is everything that is known about a dataset. A fresh listing yields an index without
// headers and without the contents of archives.
type index struct {
	table   *table
	classes []string   // in label order; nil if there are none
	packed  []object   // the archives that hold the samples, if any
	objects []contents // what is known about each of table.objects
	listed  bool       // it was read from a file that is complete
	naming
	listing
}

// A listing is what an index holds besides rows.
type listing struct {
	Rows         int            `json:"rows"` // how many rows the file has
	Digest       string         `json:"digest"`
	ModTime      int64          `json:"modtime_ns"`
	Stamp        stamp          `json:"manifest_stamp"`
	ManifestSize int64          `json:"manifest_size"`
	Ignored      map[string]int `json:"ignored,omitempty"`
	Classes      [][]byte       `json:"classes"`
	Dirs         []dirStamp     `json:"directories"`       // the listed directories of this machine
	Numbers      []string       `json:"numbers,omitempty"` // see Report

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

// derive computes what the rows determine.
func (x *index) derive() {
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
// that a copy of a dataset has the same digest. Change the version when you change what is hashed.
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

// current says whether the dataset is known to be unchanged since it was listed. In a store, only a
// new listing can tell.
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

// sameObjects says whether the dataset's objects are still the ones that were searched for samples.
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
	// Unsettled means that the modification was so recent that another one could leave the same
	// time. Such a stamp proves nothing.
	Unsettled bool `json:"unsettled"`
}

// newStamp judges a modification time that was read at now, before the content was read.
func newStamp(modified, now time.Time) stamp {
	return stamp{Time: modified.UnixNano(), Unsettled: Unsettled(modified, now)}
}

// Unsettled reports whether a modification time read at now is so recent that another change could
// leave the same time. Kernels stamp with a clock that ticks every 1 to 10 ms; a time of whole
// seconds suggests a file system with a resolution of one or two seconds.
func Unsettled(modified, now time.Time) bool {
	grain := 20 * time.Millisecond
	if modified.Nanosecond() == 0 {
		grain = 2100 * time.Millisecond
	}
	return modified.After(now.Add(-grain))
}

// proves says whether an equal modification time means that nothing changed.
func (s stamp) proves(modified time.Time) bool { return !s.Unsettled && s.Time == modified.UnixNano() }

// checkPaths refuses paths that a manifest could not have, or that are not in their stored form.
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
