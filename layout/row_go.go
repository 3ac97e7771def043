package layout

import "encoding/binary"

// putRow is PutRow in Go, for rows that must be converted.
func (w *Writer) putRow(y int, row []byte) {
	size, channels := w.convert.dtype.Size(), w.convert.channels
	first, move := 0, channels
	if w.flip {
		first, move = len(row)-channels, -channels
	}
	for k := range channels {
		to := w.slot[y*w.pitch+k*w.plane:]
		putChannel(to, w.step, row, first+k, move, &w.convert.bits[k], size, w.width)
	}
}

// putChannel writes n elements of one channel, step bytes apart, from the bytes of a row that
// start at byte at and are move bytes apart.
func putChannel(to []byte, step int, row []byte, at, move int, table *[256]uint32, size, n int) {
	switch size {
	case 1:
		for i := range n {
			to[i*step] = row[at]
			at += move
		}
	case 2:
		for i := range n {
			binary.LittleEndian.PutUint16(to[i*step:], uint16(table[row[at]]))
			at += move
		}
	default:
		for i := range n {
			binary.LittleEndian.PutUint32(to[i*step:], table[row[at]])
			at += move
		}
	}
}
