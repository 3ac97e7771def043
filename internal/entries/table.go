package entries

import (
	"errors"
	"io"
	"maps"
	"math/bits"
	"os"
	"slices"
)

// A slot says where a record is, and what it is about. A slot of zeros is empty.
type slot struct {
	offset int64 // of the record; without entry points there is no record, and this is the JPEG's CRC
	count  int   // of entry points
	tag    uint64
	check  uint32
}

func (s slot) append(b []byte) []byte {
	b = le.AppendUint64(b, uint64(s.offset)<<24|uint64(s.count)<<10|s.tag>>32)
	return le.AppendUint64(b, s.tag<<32|uint64(s.check))
}

func slotOf(b []byte) slot {
	x, y := le.Uint64(b), le.Uint64(b[8:])
	return slot{int64(x >> 24), int(x >> 10 & (1<<14 - 1)), (x<<32 | y>>32) & tagMask, uint32(y)}
}

func (s slot) known() bool { return s != slot{} && s.count <= maxPoints }

// recordSize is the size of the slot's record.
func (s slot) recordSize() int {
	if s.count == 0 {
		return 0
	}
	return crcSize + s.count*pointSize
}

// text returns a text with the slot's record to be sealed, nil if the record cannot be read.
func (s slot) text(from io.ReaderAt, b *Buffer) []byte {
	if !s.known() {
		return nil
	}
	text := b.grow(factsSize + crcSize + s.count*pointSize)
	if s.count == 0 {
		le.PutUint32(text[factsSize:], uint32(s.offset))
	} else if _, err := from.ReadAt(text[factsSize:], s.offset); err != nil {
		return nil
	}
	return text
}

// A table is an open file.
type table struct {
	header
	file *os.File
}

// look returns the slot of a path with a hash, or an empty one, and its offset in the file. If the
// bucket is full, it returns the slot of another path, to be overwritten.
func (t *table) look(hash uint64, b *Buffer) (s slot, at int64, err error) {
	bucket, tag := b.grow(bucketSize), hash&tagMask
	number, _ := bits.Mul64(hash, uint64(t.buckets()))
	start := bucketSize * int64(1+number)
	if _, err := t.file.ReadAt(bucket, start); err != nil {
		return slot{}, 0, err
	}
	free := -1
	for k := 0; k < bucketSize; k += slotSize {
		s := slotOf(bucket[k:])
		switch empty := s == (slot{}); {
		case s.tag == tag && !empty:
			return s, start + int64(k), nil
		case empty && free < 0:
			free = k
		}
	}
	if free < 0 {
		free = int(tag%slots) * slotSize
	}
	return slot{}, start + int64(free), nil
}

// find returns the slot of a path with a hash, and a text with its record to be sealed; nil if it
// is unknown.
func (t *table) find(hash uint64, b *Buffer) (s slot, text []byte) {
	if s, _, err := t.look(hash, b); err == nil {
		return s, s.text(t.file, b)
	}
	return slot{}, nil
}

// save appends the notes: records first, so that no slot precedes its record.
func (t *table) save(to *os.File, notes map[uint64]*note) error {
	hashes, records := slices.Collect(maps.Keys(notes)), []byte(nil)
	for _, hash := range hashes {
		n := notes[hash]
		records = append(records, n.record[:n.slot.recordSize()]...)
	}
	start, err := appendTo(to, records)
	if err != nil {
		return err
	}
	if start+int64(len(records)) > maxOffset {
		return errors.New("the file is too large")
	}
	var b Buffer
	for _, hash := range hashes {
		s := notes[hash].slot
		if s.count > 0 {
			s.offset = start
			start += int64(s.recordSize())
		}
		before, at, err := t.look(hash, &b)
		if err == nil && s != before {
			_, err = t.file.WriteAt(s.append(b.b[:0]), at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// appendTo appends bytes and returns where they are, even if other processes append too: the kernel
// moves the descriptor's position to their end.
func appendTo(f *os.File, b []byte) (start int64, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	if _, err := f.Write(b); err != nil {
		return 0, err
	}
	end, err := f.Seek(0, io.SeekCurrent)
	return end - int64(len(b)), err
}
