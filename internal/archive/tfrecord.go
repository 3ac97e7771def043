package archive

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
)

// Fields of the messages in which TensorFlow stores a sample, each nested in the one before:
// Example{1: Features{1: {1: name, 2: Feature{1: {1: bytes} or 3: {1: whole numbers}}}}}.
var (
	fieldsOfFeature = []uint64{1, 1} // of an Example
	fieldsOfName    = []uint64{1}    // this and the following: of a feature
	fieldsOfBytes   = []uint64{2, 1, 1}
	fieldsOfInts    = []uint64{2, 3, 1}
)

// records reads a file of TensorFlow's records, each an Example. A length and a checksum precede
// each.
type records struct {
	*scanner
	image, label, name found
	features           []string // names in the first record
	from, end          int64    // of the record
	head               []byte   // its first bytes
	named              bool     // all records so far have names
}

// found is the best candidate among a record's features.
type found struct {
	rank     int // -1 for none
	from, to int64
	number   int64
	isNumber bool
	several  bool
	sum      uint32 // of the bytes, if hasSum
	hasSum   bool
}

// tfrecord scans a file of records.
func (s *scanner) tfrecord() error {
	s.Kind, s.Ordered = "tfrecord", true
	r := &records{scanner: s, named: true}
	if err := s.refuseCompressed(); err != nil {
		return err
	}
	const head, tail = 12, 4
	images := 0
	for at := int64(0); at < s.size; {
		b, err := s.bytes(at, head)
		if err != nil {
			return fmt.Errorf("record %d: %w", len(s.Samples), err)
		}
		length := le64(b)
		switch {
		case masked(b[:8]) != le32(b[8:]):
			return fmt.Errorf("record %d, at %d: the checksum of its length does not match", len(s.Samples), at)
		case s.size-at < head+tail || length > uint64(s.size-at-head-tail):
			return fmt.Errorf("record %d, at %d, is cut short", len(s.Samples), at)
		}
		at += head
		if err := r.record(at, at+int64(length)); err != nil {
			return fmt.Errorf("record %d, at %d: %w", len(s.Samples), at, err)
		}
		if at += int64(length) + tail; s.Problems[len(s.Samples)-1] == "" {
			images++
		}
	}
	if images == 0 && len(s.Samples) > 0 {
		return fmt.Errorf("no feature of its records holds one image; the first has %q", r.features)
	}
	s.nameRows(r.named)
	return nil
}

// masked is a checksum in the form that records store.
func masked(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + mask
}

// unmasked is the inverse of masked.
func unmasked(c uint32) uint32 {
	c -= mask
	return c>>17 | c<<15
}

const mask = 0xa282ead8

// The bytes before and after the image in a record are read to derive the image's own checksum from
// the record's.
const (
	mostBefore = 4<<10 - 12
	mostAfter  = 64 << 10
)

// sum derives the checksum of bytes of the record, if they are most of it.
func (r *records) sum(f *found) error {
	before, after := f.from-r.from, r.end-f.to
	if before > int64(len(r.head)) || after > mostAfter {
		return nil
	}
	b, err := r.bytes(f.to, int(after)+4)
	if err == nil {
		f.sum, f.hasSum = middle(unmasked(le32(b[after:])), r.head[:before], f.to-f.from, b[:after]), true
	}
	return err
}

func (r *records) record(from, end int64) error {
	r.image, r.label, r.name = found{rank: -1}, found{rank: -1}, found{rank: -1}
	head, err := r.bytes(from, int(min(end-from, mostBefore)))
	if err != nil {
		return err
	}
	r.from, r.end, r.head = from, end, append(r.head[:0], head...)
	if err := r.eachField(from, end, fieldsOfFeature, func(from, end int64, _ uint64) error {
		return r.feature(from, end)
	}); err != nil {
		return err
	}
	name := ""
	if r.name.rank >= 0 && !r.name.isNumber {
		b, err := r.bytes(r.name.from, int(min(r.name.to-r.name.from, maxName+1)))
		if err != nil {
			return err
		}
		name, _ = clean(string(b))
	}
	r.named = r.named && name != ""
	if i := r.image; i.rank < 0 || i.isNumber || i.several {
		r.addProblem(name, "the record does not hold one image")
	} else {
		at := Place{Offset: i.from, Length: i.to - i.from, Size: i.to - i.from}
		if i.hasSum {
			at.CRC, at.Sum = i.sum, Castagnoli
		}
		r.add(name, at)
	}
	sample := &r.Samples[len(r.Samples)-1]
	switch l := r.label; {
	case l.rank < 0:
		return nil
	case l.several:
		return fmt.Errorf("more than one label")
	case l.isNumber:
		return setNumber(sample, l.number)
	}
	b, err := r.bytes(r.label.from, int(min(r.label.to-r.label.from, maxClass+1)))
	if err != nil {
		return err
	}
	return r.setClass(sample, string(b))
}

// feature examines a feature and its name.
func (r *records) feature(from, end int64) error {
	name := ""
	if err := r.eachField(from, end, fieldsOfName, func(from, end int64, _ uint64) error {
		b, err := r.bytes(from, int(min(end-from, maxName)))
		name = string(b)
		return err
	}); err != nil {
		return err
	}
	if len(r.Samples) == 0 && len(r.features) < 100 && !slices.Contains(r.features, name) {
		r.features = append(r.features, name)
	}
	for _, c := range []struct {
		best *found
		rank int
	}{
		{&r.image, rank(r.Image, usualImages, name)},
		{&r.label, rank(r.Label, usualLabels, name)},
		{&r.name, rank("", []string{"image/filename", "file_name", "filename", "__key__"}, name)},
	} {
		if c.rank < 0 || c.best.rank >= 0 && c.best.rank < c.rank {
			continue
		}
		f, err := r.value(from, end)
		if err != nil {
			return err
		}
		if f.rank = c.rank; !f.isNumber && f.to == 0 {
			continue
		}
		if c.best == &r.image && !f.isNumber { // now, because the bytes after it are about to be read anyway
			if err := r.sum(&f); err != nil {
				return err
			}
		}
		*c.best = f
	}
	return nil
}

// value reads the single value of a feature.
func (r *records) value(from, end int64) (found, error) {
	f, n := found{}, 0
	if err := r.eachField(from, end, fieldsOfBytes, func(from, end int64, _ uint64) error {
		f.from, f.to = from, end
		n++
		return nil
	}); err != nil {
		return f, err
	}
	err := r.eachField(from, end, fieldsOfInts, func(from, end int64, single uint64) error {
		if end > 0 && end == from {
			return nil
		}
		f.isNumber, f.number = true, int64(single)
		if n++; end == 0 {
			return nil
		}
		v, size, err := r.uvarint(from, end)
		f.number, f.several = int64(v), size < end-from
		return err
	})
	f.several = f.several || n > 1
	return f, err
}

// eachField calls f for the fields of a message that a path of field numbers leads to, through
// nested messages: with the range of the bytes, or with a number if the range is 0.
func (w *window) eachField(from, end int64, path []uint64, f func(from, end int64, v uint64) error) error {
	for from < end {
		tag, n, err := w.uvarint(from, end)
		if err != nil {
			return err
		}
		from += n
		var at, to int64
		v := uint64(0)
		switch tag & 7 {
		case 0:
			v, n, err = w.uvarint(from, end)
		case 1:
			n = 8
		case 5:
			n = 4
		case 2:
			v, n, err = w.uvarint(from, end)
			if err == nil && v > uint64(end-from-n) {
				err = errDamaged
			}
			at, to = from+n, from+n+int64(v)
			n += int64(v)
		default:
			err = errDamaged
		}
		if from += n; err == nil && from > end {
			err = errDamaged
		}
		switch {
		case err != nil || tag>>3 != path[0] || tag&7 != 0 && tag&7 != 2:
		case len(path) == 1:
			err = f(at, to, v)
		default:
			err = w.eachField(at, to, path[1:], f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// uvarint reads a number, and returns its length in bytes.
func (w *window) uvarint(from, end int64) (v uint64, size int64, err error) {
	b, err := w.bytes(from, int(min(end-from, binary.MaxVarintLen64)))
	if err != nil {
		return 0, 0, err
	}
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, 0, errDamaged
	}
	return v, int64(n), nil
}
