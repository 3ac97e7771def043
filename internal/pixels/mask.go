package pixels

import (
	"encoding/binary"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
)

// Values say how the values of masks become elements of a tensor. They are never interpolated: each
// element is the value of the nearest pixel.
type Values struct {
	// Map maps stored values of up to 16 bits. Values beyond its end, and values that it maps to a
	// negative number, become Ignore. nil: values are not changed.
	Map    []int32
	Ignore int32 // also outside of the image
	Wide   bool  // elements are int32, not uint8
}

// bytes is the size of an element.
func (v *Values) bytes() int {
	if v.Wide {
		return 4
	}
	return 1
}

// A Mask is a stored mask. Values of 1 or 2 bytes have the highest byte first, values of 3 bytes
// (red, green, blue) the lowest. Pixel (x, y) of the mask's image is at first + x*dx + y*dy.
type Mask struct {
	pix           []byte
	bytes         int
	first, dx, dy int
}

// NewMask lays out a mask of height x width values, with an EXIF orientation.
func NewMask(pix []byte, height, width, bytes int, orientation uint8) Mask {
	m := Mask{pix: pix, bytes: bytes}
	head := decode.Header{Height: height, Width: width, Orientation: orientation}
	m.first, m.dx, m.dy = decode.Options{}.Steps(head, decode.Region{W: width, H: height}, bytes, width*bytes)
	return m
}

// MaskOrientation says how a mask of mh x mw values lies relative to its image, which has h x w
// stored pixels and an EXIF orientation: the result is the mask's own orientation. A mask of the
// stored size belongs to the stored pixels, else one of the upright size to the upright pixels.
// ignored says that the image is shown as it is stored.
func MaskOrientation(mh, mw, h, w int, orientation uint8, ignored bool) (of uint8, ok bool) {
	switch stored := mh == h && mw == w; {
	case stored && ignored:
		return 1, true
	case stored:
		return max(orientation, 1), true
	case orientation < 5 || mh != w || mw != h:
		return 0, false
	case !ignored:
		return 1, true
	}
	return TurnedBack(orientation), true
}

// TurnedBack is the inverse of an orientation.
func TurnedBack(orientation uint8) uint8 {
	switch orientation {
	case 6:
		return 8
	case 8:
		return 6
	}
	return max(orientation, 1)
}

// Put writes the elements of a mask, under the transform of its image, to a slot with rows of width
// elements. The rest of the slot becomes Ignore. columns is scratch memory, which grows as needed.
func (v *Values) Put(slot []byte, width int, m Mask, t resample.Transform, columns *[]int) {
	h, w := t.Size()
	each := v.bytes()
	at := append((*columns)[:0], make([]int, w)...)
	*columns = at
	for j := range at {
		k := j
		if t.Flip {
			k = w - 1 - j
		}
		at[k] = m.first + t.X.Nearest(j)*m.dx
	}
	stride, before := width*each, -1
	for i := range h {
		row, y := slot[i*stride:][:stride], t.Y.Nearest(i)
		if y == before {
			copy(row, slot[(i-1)*stride:])
			continue
		}
		before = y
		v.putRow(row[:w*each], m, y*m.dy, at)
		v.Fill(row[w*each:])
	}
	v.Fill(slot[h*stride:])
}

// putRow writes the elements of a row. Its pixels are at the places at, relative to from.
func (v *Values) putRow(to []byte, m Mask, from int, at []int) {
	if v.Wide {
		for j, x := range at {
			binary.LittleEndian.PutUint32(to[4*j:], uint32(v.of(m.value(from+x))))
		}
		return
	}
	if last := len(at) - 1; v.Map == nil && m.dx == 1 && at[last]-at[0] == last { // neither shrunk nor turned
		copy(to, m.pix[from+at[0]:])
		return
	}
	for j, x := range at {
		to[j] = m.pix[from+x]
	}
	if v.Map != nil {
		for j, n := range to {
			to[j] = uint8(v.of(uint32(n)))
		}
	}
}

// value is the value at a place.
func (m *Mask) value(at int) uint32 {
	switch p := m.pix[at:]; m.bytes {
	case 1:
		return uint32(p[0])
	case 2:
		return uint32(binary.BigEndian.Uint16(p))
	default:
		return uint32(p[0]) | uint32(p[1])<<8 | uint32(p[2])<<16
	}
}

func (v *Values) of(stored uint32) int32 {
	switch {
	case v.Map == nil:
		return int32(stored)
	case int(stored) < len(v.Map) && v.Map[stored] >= 0:
		return v.Map[stored]
	}
	return v.Ignore
}

// Fill writes Ignore to whole elements.
func (v *Values) Fill(to []byte) {
	for i := 0; i < len(to); i += v.bytes() {
		if to[i] = uint8(v.Ignore); v.Wide {
			binary.LittleEndian.PutUint32(to[i:], uint32(v.Ignore))
		}
	}
}
