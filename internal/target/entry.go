package target

import (
	"encoding/binary"
	"math"

	"github.com/batchfs/batchfs/internal/facts"
)

// An entry is one annotation of an image: an object, or a shape. Numbers in its data are
// little-endian.
type entry struct {
	isShape bool
	data    []byte
}

var le = binary.LittleEndian

func (e entry) encode(to *facts.Encoder) {
	to.Byte(bit(e.isShape))
	to.Int(int64(len(e.data)))
	to.Bytes = append(to.Bytes, e.data...)
}

func nextEntry(d *facts.Decoder) entry { return entry{d.Byte() != 0, d.Text()} }

// points is how many keypoints an object has, and whether it has a visible part; ok is false if the
// data is not an object's.
func (e entry) points() (n int, visible, ok bool) {
	rest := len(e.data) - objectBytes
	if rest >= 0 && le.Uint32(e.data[objectBytes-4:])&hasVisible != 0 {
		rest, visible = rest-boxBytes, true
	}
	return rest / pointBytes, visible, rest >= 0 && rest%pointBytes == 0
}

func appendFloats(to []byte, values ...float32) []byte {
	for _, v := range values {
		to = le.AppendUint32(to, math.Float32bits(v))
	}
	return to
}

// floats reads values, and returns the rest of data.
func floats(data []byte, to ...*float32) []byte {
	for k, v := range to {
		*v = math.Float32frombits(le.Uint32(data[4*k:]))
	}
	return data[4*len(to):]
}

// The data of an object: its box, its id, its label and its flags, then its visible part, if known,
// and its keypoints.
const (
	boxBytes    = 16
	pointBytes  = 12
	objectBytes = boxBytes + 8 + 4
	flagsAt     = 24 // bits above the label
	maxLabel    = 1<<flagsAt - 1
	hasVisible  = 1 << 31 // above the flags
)

func (o *Object) append(out []byte) []byte {
	out = le.AppendUint64(appendFloats(out, o.Box[:]...), uint64(o.ID))
	label := uint32(o.Label) | uint32(o.Flags)<<flagsAt
	if o.Visible != nil {
		out = appendFloats(le.AppendUint32(out, label|hasVisible), o.Visible[:]...)
	} else {
		out = le.AppendUint32(out, label)
	}
	for _, p := range o.Keypoints {
		out = appendFloats(out, p.X, p.Y, p.V)
	}
	return out
}

func decodeBox(data []byte) (b Box, rest []byte) {
	rest = floats(data, &b[0], &b[1], &b[2], &b[3])
	return b, rest
}

func decodeObject(data []byte) (o Object) {
	o.Box, data = decodeBox(data)
	o.ID = int64(le.Uint64(data))
	label := le.Uint32(data[8:])
	o.Label, o.Flags = int32(label&maxLabel), Flags(label&^hasVisible>>flagsAt)
	if data = data[12:]; label&hasVisible != 0 {
		var visible Box
		visible, data = decodeBox(data)
		o.Visible = &visible
	}
	if len(data) > 0 {
		o.Keypoints = make([]Keypoint, len(data)/pointBytes)
	}
	for k := range o.Keypoints {
		p := &o.Keypoints[k]
		data = floats(data, &p.X, &p.Y, &p.V)
	}
	return o
}

// The data of a shape: its class, the number of its polygons, the length of each, and their
// numbers; or -1 and the runs.
func (s *Shape) encode() []byte {
	out := le.AppendUint32(nil, uint32(s.Class))
	if s.Polygons == nil {
		out, _ = binary.Append(le.AppendUint32(out, math.MaxUint32), le, s.Runs) // numbers always encode
		return out
	}
	out = le.AppendUint32(out, uint32(len(s.Polygons)))
	for _, p := range s.Polygons {
		out = le.AppendUint32(out, uint32(len(p)))
	}
	for _, p := range s.Polygons {
		out, _ = binary.Append(out, le, p)
	}
	return out
}

// decodeShape reads the data of a shape. isShape must have accepted it.
func decodeShape(data []byte) Shape {
	s, polygons := Shape{Class: int32(le.Uint32(data))}, le.Uint32(data[4:])
	if data = data[8:]; polygons == math.MaxUint32 {
		s.Runs = make([]uint32, len(data)/4)
		_, _ = binary.Decode(data, le, s.Runs)
		return s
	}
	s.Polygons = make([][]float64, polygons)
	lengths, numbers := data[:4*polygons], data[4*polygons:]
	for k := range s.Polygons {
		p := make([]float64, le.Uint32(lengths[4*k:]))
		n, _ := binary.Decode(numbers, le, p)
		s.Polygons[k], numbers = p, numbers[n:]
	}
	return s
}

// isShape reports whether data is an encoded shape.
func isShape(data []byte) bool {
	if len(data) < 8 || len(data)%4 != 0 {
		return false
	}
	polygons := le.Uint32(data[4:])
	if data = data[8:]; polygons == math.MaxUint32 {
		return true
	}
	if int64(polygons) > int64(len(data)/4) {
		return false
	}
	total := int64(0)
	for k := range int(polygons) {
		n := le.Uint32(data[4*k:])
		if n%2 != 0 || n < 2 {
			return false
		}
		total += 8 * int64(n)
	}
	return int64(len(data)) == 4*int64(polygons)+total
}
