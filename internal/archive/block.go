package archive

import (
	"encoding/binary"
	"errors"
	"fmt"
)

var (
	le16 = binary.LittleEndian.Uint16
	le32 = binary.LittleEndian.Uint32
	le64 = binary.LittleEndian.Uint64
)

var errDamaged = errors.New("damaged")

// A block is a part of the archive with samples or other values. If its body is nil, it is not in
// memory.
type block struct {
	w     *window
	place Place // of the whole block
	body  []byte
	size  int64
}

// unpack reads a compressed block of size bytes into room, which it enlarges if necessary.
func (b *block) unpack(size int64, room *[]byte) error {
	b.size, b.place.Block, b.place.Size = size, size, size
	if size < 0 || !b.place.Within(b.w.size) {
		return fmt.Errorf("%w, or larger than %d bytes: a compressed block", errDamaged, maxBlock)
	}
	stored, err := b.w.bytes(b.place.Offset, int(b.place.Length))
	if err != nil {
		return err
	}
	if more := size - int64(cap(*room)); more > 0 {
		if err := b.w.take(more); err != nil {
			return err
		}
		*room = make([]byte, size)
	}
	b.body, err = b.place.Unpack((*room)[:0], stored)
	return err
}

// bytes returns n bytes, which are valid until the next call.
func (b *block) bytes(from, n int64) ([]byte, error) {
	switch {
	case from < 0 || n < 0 || from > b.size-n:
		return nil, errDamaged
	case b.body == nil && b.place.Coding == Plain:
		return b.w.bytes(b.place.Offset+from, int(n))
	}
	return b.body[from:][:n], nil
}

// part is the place of a part of the block. The part must lie in the block.
func (b *block) part(from, size int64) Place {
	p := b.place
	if p.Size = size; p.Coding == Plain {
		p.Offset, p.Length = p.Offset+from, size
		return p
	}
	p.From = from
	return p
}

// span is where a value is in its block.
type span struct{ from, size uint32 }

// value is one value of a column. It is valid until the next one.
type value struct {
	*block
	span
}

func (v *value) bytes(most int64) ([]byte, error) {
	if int64(v.span.size) > most {
		return nil, fmt.Errorf("a value is longer than %d bytes", most)
	}
	return v.block.bytes(int64(v.from), int64(v.span.size))
}

func (v *value) place() Place { return v.part(int64(v.from), int64(v.span.size)) }
