package archive

import (
	"encoding/binary"

	"github.com/parquet-go/parquet-go/format"
)

// deltas decodes at most most whole numbers that are stored as differences, and returns how many
// bytes they take.
func deltas(b []byte, most int64) (values []int64, size int, err error) {
	whole := len(b)
	head := [3]uint64{} // numbers per block, parts per block, and the total of numbers
	for i := range head {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, 0, errDamaged
		}
		head[i], b = v, b[n:]
	}
	block, parts, count := head[0], head[1], head[2]
	last, n := binary.Varint(b)
	if n <= 0 || count > uint64(most) || parts == 0 || block > 1<<20 || parts > block || block%(8*parts) != 0 {
		return nil, 0, errDamaged
	}
	b = b[n:]
	if count > 0 {
		values = append(values, last)
	}
	for uint64(len(values)) < count {
		least, n := binary.Varint(b)
		if n <= 0 || uint64(len(b)-n) < parts {
			return nil, 0, errDamaged
		}
		widths := b[n:][:parts]
		b = b[n+int(parts):]
		for _, width := range widths {
			if uint64(len(values)) == count {
				break
			}
			packed := int(block/parts) / 8 * int(width)
			if width > 64 || packed > len(b) {
				return nil, 0, errDamaged
			}
			for i := 0; i < int(block/parts) && uint64(len(values)) < count; i++ {
				last += least + int64(bitsAt(b[:packed], i*int(width), int(width)))
				values = append(values, last)
			}
			b = b[packed:]
		}
	}
	return values, whole - len(b), nil
}

// bitsAt returns the number in width bits of b.
func bitsAt(b []byte, at, width int) (v uint64) {
	for i := range width {
		v |= uint64(b[(at+i)/8]>>((at+i)%8)&1) << i
	}
	return v
}

// delta returns a function that yields the values of a page stored as differences: whole numbers,
// or bytes, which follow the differences of their lengths. The returned block holds the values.
func (c *chunk) delta(p *block, from, n int64, encoding format.Encoding) (*block, func() (span, error), error) {
	b, err := p.bytes(from, min(p.size-from, 64<<10+10*n))
	if err != nil {
		return nil, nil, err
	}
	values, size, err := deltas(b, n)
	if err != nil {
		return nil, nil, err
	}
	if encoding == format.DeltaBinaryPacked {
		numbers := &block{}
		for _, v := range values {
			numbers.body = append(numbers.body, binary.LittleEndian.AppendUint64(nil, uint64(v))[:c.width]...)
		}
		numbers.size = int64(len(numbers.body))
		return numbers, (&walk{block: numbers, width: c.width}).next, nil
	}
	at := from + int64(size)
	return p, func() (span, error) {
		if len(values) == 0 || values[0] < 0 || values[0] > p.size-at {
			return span{}, errDamaged
		}
		v := span{uint32(at), uint32(values[0])}
		at, values = at+values[0], values[1:]
		return v, nil
	}, nil
}
