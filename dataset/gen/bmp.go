package gen

import "encoding/binary"

// appendBMP appends a BMP file to dst. pix holds w x h pixels of bits/8 bytes without padding,
// top row first: palette indices, BGR, or BGRX. palette holds BGRX entries, only for 8 bits.
func appendBMP(dst []byte, w, h int, pix []byte, bits int, palette []byte, topDown bool) []byte {
	row := w * bits / 8
	stride := (row + 3) &^ 3
	offset := 14 + 40 + len(palette)
	le := binary.LittleEndian
	dst = append(dst, "BM"...)
	dst = le.AppendUint32(dst, uint32(offset+stride*h))
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint32(dst, uint32(offset))

	height := int32(h)
	if topDown {
		height = -height
	}
	dst = le.AppendUint32(dst, 40)
	dst = le.AppendUint32(dst, uint32(w))
	dst = le.AppendUint32(dst, uint32(height))
	dst = le.AppendUint16(dst, 1)
	dst = le.AppendUint16(dst, uint16(bits))
	dst = le.AppendUint32(dst, 0) // not compressed
	dst = le.AppendUint32(dst, uint32(stride*h))
	dst = le.AppendUint32(dst, 2835) // 72 dots per inch
	dst = le.AppendUint32(dst, 2835)
	dst = le.AppendUint32(dst, uint32(len(palette)/4))
	dst = le.AppendUint32(dst, 0)

	dst = append(dst, palette...)
	for i := range h {
		y := h - 1 - i
		if topDown {
			y = i
		}
		dst = append(dst, pix[y*row:(y+1)*row]...)
		dst = append(dst, "\x00\x00\x00"[:stride-row]...)
	}
	return dst
}
