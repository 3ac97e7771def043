package facts

import "encoding/binary"

// An Encoder appends numbers, as varints, and texts, with their lengths, to a payload.
type Encoder struct{ Bytes []byte }

// Int appends a number.
func (e *Encoder) Int(n int64) { e.Bytes = binary.AppendVarint(e.Bytes, n) }

// Byte appends a byte.
func (e *Encoder) Byte(c byte) { e.Bytes = append(e.Bytes, c) }

// Text appends any bytes.
func (e *Encoder) Text(s string) {
	e.Int(int64(len(s)))
	e.Bytes = append(e.Bytes, s...)
}

// A Decoder reads what an Encoder wrote. After reading beyond the end or an invalid value, it
// returns zeros, and is Bad.
type Decoder struct {
	Bytes []byte // not read yet
	Bad   bool
}

// Int reads a number.
func (d *Decoder) Int() int64 {
	n, size := binary.Varint(d.Bytes)
	if size <= 0 {
		d.Bytes, d.Bad = nil, true
		return 0
	}
	d.Bytes = d.Bytes[size:]
	return n
}

// Within reads a number from 0 to most.
func (d *Decoder) Within(most int64) int64 {
	n := d.Int()
	if n < 0 || n > most {
		d.Bad = true
		return 0
	}
	return n
}

// Byte reads a byte.
func (d *Decoder) Byte() byte {
	if len(d.Bytes) == 0 {
		d.Bad = true
		return 0
	}
	c := d.Bytes[0]
	d.Bytes = d.Bytes[1:]
	return c
}

// Text reads bytes, which share the payload's memory.
func (d *Decoder) Text() []byte {
	n := d.Within(int64(len(d.Bytes)))
	text := d.Bytes[:n:n]
	d.Bytes = d.Bytes[n:]
	return text
}
