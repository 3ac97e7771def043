package dataset

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/batchfs/batchfs/internal/owned"
)

// Share is one of N equal parts of the work on a dataset, counted from 0. The zero value is all of it.
type Share struct {
	K int `json:"k"`
	N int `json:"n"`
}

func (p Share) String() string { return fmt.Sprintf("%d/%d", p.K, p.N) }

// Span is which of n items belong to it: those from lo to hi-1.
func (p Share) Span(n int) (lo, hi int) {
	if p.N == 0 {
		return 0, n
	}
	return n * p.K / p.N, n * (p.K + 1) / p.N
}

// A PartsError is the error of joining parts of which some are missing or useless.
type PartsError struct {
	Parts []Share // that have to be made, in order; none: not even their number is known
	Err   error   // why the first of them is of no use
}

func (e *PartsError) Error() string {
	if len(e.Parts) == 0 {
		return "no part has been made"
	}
	first := e.Parts[0]
	if len(e.Parts) == 1 {
		return fmt.Sprintf("part %s %v", first, e.Err)
	}
	return fmt.Sprintf("%d of %d parts cannot be joined: part %s %v", len(e.Parts), first.N, first, e.Err)
}

var (
	errNoPart  = errors.New("is missing")
	errListing = errors.New("is of the dataset as it was before")
)

// PartPath is where a part of what base stands for is kept.
func PartPath(base string, part Share, extension string) string {
	return fmt.Sprintf("%s-%05d-of-%05d%s", base, part.K, part.N, extension)
}

// EachPart calls use for all parts of what base stands for, in order, whether or not they are there. The
// newest one says how many there are. The error is a [PartsError] if use fails for some.
func EachPart(base, extension string, use func(part Share, path string) error) error {
	n, newest := 0, time.Time{}
	paths, _ := filepath.Glob(escapePattern(base) + "-*-of-*" + extension)
	for _, path := range paths {
		var part Share
		_, err := fmt.Sscanf(strings.TrimPrefix(path, base), "-%d-of-%d", &part.K, &part.N)
		info, gone := os.Lstat(path)
		if err == nil && gone == nil && path == PartPath(base, part, extension) && info.ModTime().After(newest) {
			n, newest = part.N, info.ModTime()
		}
	}
	e := &PartsError{}
	for k := range n {
		part := Share{k, n}
		err := use(part, PartPath(base, part, extension))
		if errors.Is(err, fs.ErrNotExist) {
			err = errNoPart
		}
		if err != nil {
			e.Parts, e.Err = append(e.Parts, part), cmp.Or(e.Err, err)
		}
	}
	if n > 0 && len(e.Parts) == 0 {
		return nil
	}
	return e
}

// listingDigest identifies what was listed, before any header was read.
func (x *index) listingDigest() string {
	h := sha256.New()
	w := bufio.NewWriterSize(h, 64<<10)
	io.WriteString(w, digest(x.table, x.classes))
	for i, row := range x.table.row {
		_ = binary.Write(w, binary.LittleEndian, row.id.ModTime)
		io.WriteString(w, x.table.versions.get(i)+"\x00")
	}
	for _, o := range x.packed {
		fmt.Fprintf(w, "%q %q %d %d\n", o.name, o.version, o.id.Size, o.id.ModTime)
	}
	w.Flush()
	return hex.EncodeToString(h.Sum(nil))
}

// makePart makes and stores the index of a part: of a share of the archives, with the names that are in
// them, or of a share of the rows.
func (p *opening) makePart() (*index, error) {
	earlier := []*index{p.loadFile(p.indexFile)}
	p.indexFile = PartPath(p.indexBase(), p.Part, indexExtension)
	earlier = append(earlier, p.loadFile(p.indexFile), p.loadFile(p.unfinished()))
	all, err := p.outline()
	if err != nil {
		return nil, err
	}
	x := &index{facts: facts{Dirs: all.Dirs, Part: p.Part, Listing: all.listingDigest()}}
	if all.packed == nil {
		if err := p.check(all); err != nil {
			return nil, err
		}
		lo, hi := p.Part.Span(all.table.rows())
		x.table, x.classes, x.Outside = all.table.span(lo, hi), all.classes, all.Outside
	} else {
		lo, hi := p.Part.Span(len(all.packed))
		x.table = newTable(0, 0)
		err = p.addArchives(x, all.packed[lo:hi], earlier...)
	}
	if err != nil {
		return nil, err
	}
	if err := p.scan(x, earlier, x.table.unprobed()); err != nil {
		return nil, err
	}
	x.complete(p.src)
	if err := saveIndex(p.ctx, p.indexFile, x); err != nil {
		return nil, err
	}
	p.removeUnfinished()
	return x, nil
}

// merge makes the index of its parts. It reads no header but those that could not be read before.
func (p *opening) merge() (*index, error) {
	x, err := p.outline()
	if err != nil {
		return nil, err
	}
	var parts []*index
	listing := x.listingDigest()
	err = EachPart(p.indexBase(), indexExtension, func(part Share, path string) error {
		y, err := loadIndex(p.ctx, path, p.src)
		if err == nil && (y.Part != part || y.Listing != listing) {
			err = errListing
		}
		parts = append(parts, y)
		return err
	})
	if err == nil {
		err = p.join(x, parts)
	}
	if err == nil {
		err = p.nonempty(x)
	}
	if err == nil {
		err = p.check(x)
	}
	if err == nil {
		err = p.scan(x, nil, x.table.unsettled())
	}
	if err != nil {
		return nil, err
	}
	x.complete(p.src)
	if old := p.loadFile(p.indexFile); old != nil {
		p.carryEntries(old.table, old.Digest, x)
	}
	p.report.Reused = x.table.rows() - p.report.Scanned
	return x, saveIndex(p.ctx, p.indexFile, x)
}

// join completes an outline with the parts of its index.
func (p *opening) join(x *index, parts []*index) error {
	if x.packed != nil {
		known, all := nothingOf(x.packed), make([]found, len(x.packed))
		for k, part := range parts {
			x.Stamp.Unsettled = x.Stamp.Unsettled || part.Stamp.Unsettled
			part.remember(known)
			parts[k] = nil
		}
		for i, o := range x.packed {
			if known[o] == nil {
				return errListing
			}
			all[i] = *known[o]
		}
		return p.addFound(x, x.packed, all, time.Now())
	}
	at := 0
	for _, part := range parts {
		for k := range part.table.rows() {
			if at+k >= x.table.rows() {
				return errCounts
			}
			if x.table.path(at+k) != part.table.path(k) {
				return errListing
			}
			x.table.take(at+k, part.table, k)
		}
		at += part.table.rows()
	}
	if at != x.table.rows() {
		return errCounts
	}
	return nil
}

// kept is what is kept of the work on a part of a dataset.
type kept struct {
	Digest string          `json:"dataset"`
	Found  json.RawMessage `json:"found"`
}

// KeepPart keeps what was found out about a part of the dataset beside its index, as JSON. kind is the kind
// of work.
func (d *Dataset) KeepPart(part Share, kind string, found any) error {
	if d.indexFile == "" {
		return ErrNoIndex
	}
	text, err := json.Marshal(found)
	if err == nil {
		text, err = json.Marshal(kept{d.digest, text})
	}
	if err != nil {
		return err
	}
	return owned.Replace(PartPath(indexBase(d.indexFile), part, "."+kind+".json"), func(f *os.File) error {
		_, err := f.Write(text)
		return err
	})
}

// EachPart calls use with what KeepPart kept of each part. The error is a [PartsError] if that is not
// complete, or not about the dataset as it is now.
func (d *Dataset) EachPart(kind string, use func(found []byte) error) error {
	if d.indexFile == "" {
		return ErrNoIndex
	}
	return EachPart(indexBase(d.indexFile), "."+kind+".json", func(part Share, path string) error {
		f, _, err := owned.Open(path, os.O_RDONLY)
		if err != nil {
			return err
		}
		defer f.Close()
		var k kept
		if err := json.NewDecoder(f).Decode(&k); err != nil {
			return fmt.Errorf("is damaged: %w", err)
		}
		if k.Digest != d.digest {
			return errListing
		}
		return use(k.Found)
	})
}
