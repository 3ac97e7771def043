package layout

import "encoding/binary"

// putRow is PutRow in Go, for rows that must be converted.
func (w *Writer) putRow(y int, row []byte) {
	size, channels := w.convert.dtype.Size(), w.convert.channels
	step, start := channels, 0
	if w.flip {
		step, start = -channels, len(row)-channels
	}
	if w.spec.Order == NHWC || channels == 1 {
		at := y * w.spec.W * channels * size
		w.putInterleaved(w.slot[at:at+len(row)*size], row, start, step)
		return
	}
	plane, n := w.spec.H*w.spec.W*size, w.width*size
	at := y * w.spec.W * size
	r, g, b := w.slot[at:at+n], w.slot[plane+at:plane+at+n], w.slot[2*plane+at:2*plane+at+n]
	if size == 1 && !w.flip {
		split3(r, g, b, row)
		return
	}
	w.putPlanes(r, g, b, row, start, step)
}

// putChannel writes the elements of one channel contiguously; they start at byte at of the row,
// step bytes apart.
func putChannel(dst, row []byte, at, step int, table *[256]uint32, size int) {
	switch size {
	case 1:
		for i := range dst {
			dst[i] = row[at]
			at += step
		}
	case 2:
		for ; len(dst) >= 2; dst = dst[2:] {
			binary.LittleEndian.PutUint16(dst, uint16(table[row[at]]))
			at += step
		}
	default:
		for ; len(dst) >= 4; dst = dst[4:] {
			binary.LittleEndian.PutUint32(dst, table[row[at]])
			at += step
		}
	}
}

// putPlanes writes one row of each plane.
func (w *Writer) putPlanes(r, g, b, row []byte, at, step int) {
	tr, tg, tb := &w.convert.bits[0], &w.convert.bits[1], &w.convert.bits[2]
	switch w.convert.dtype.Size() {
	case 1:
		for ; len(r) >= 1 && len(g) >= 1 && len(b) >= 1; r, g, b = r[1:], g[1:], b[1:] {
			p := row[at : at+3]
			r[0], g[0], b[0] = p[0], p[1], p[2]
			at += step
		}
	case 2:
		for ; len(r) >= 2 && len(g) >= 2 && len(b) >= 2; r, g, b = r[2:], g[2:], b[2:] {
			p := row[at : at+3]
			binary.LittleEndian.PutUint16(r, uint16(tr[p[0]]))
			binary.LittleEndian.PutUint16(g, uint16(tg[p[1]]))
			binary.LittleEndian.PutUint16(b, uint16(tb[p[2]]))
			at += step
		}
	default:
		for ; len(r) >= 4 && len(g) >= 4 && len(b) >= 4; r, g, b = r[4:], g[4:], b[4:] {
			p := row[at : at+3]
			binary.LittleEndian.PutUint32(r, tr[p[0]])
			binary.LittleEndian.PutUint32(g, tg[p[1]])
			binary.LittleEndian.PutUint32(b, tb[p[2]])
			at += step
		}
	}
}

// putInterleaved writes whole pixels; the first starts at byte at of the row, the others follow
// step bytes apart.
func (w *Writer) putInterleaved(dst, row []byte, at, step int) {
	size := w.convert.dtype.Size()
	if w.convert.channels == 1 {
		putChannel(dst, row, at, step, &w.convert.bits[0], size)
		return
	}
	r, g, b := &w.convert.bits[0], &w.convert.bits[1], &w.convert.bits[2]
	switch size {
	case 1:
		for ; len(dst) >= 3; dst = dst[3:] {
			p := row[at : at+3]
			dst[0], dst[1], dst[2] = p[0], p[1], p[2]
			at += step
		}
	case 2:
		for ; len(dst) >= 6; dst = dst[6:] {
			p := row[at : at+3]
			binary.LittleEndian.PutUint16(dst, uint16(r[p[0]]))
			binary.LittleEndian.PutUint16(dst[2:], uint16(g[p[1]]))
			binary.LittleEndian.PutUint16(dst[4:], uint16(b[p[2]]))
			at += step
		}
	default:
		for ; len(dst) >= 12; dst = dst[12:] {
			p := row[at : at+3]
			binary.LittleEndian.PutUint32(dst, r[p[0]])
			binary.LittleEndian.PutUint32(dst[4:], g[p[1]])
			binary.LittleEndian.PutUint32(dst[8:], b[p[2]])
			at += step
		}
	}
}
