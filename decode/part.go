package decode

// PartOf returns which bytes of a file decoding a region of its stored image looks at,
// from one offset to another, beside those at its start that name its format and size.
// Only plain rows of pixels can be told apart like that: ok is false for all other
// formats, where head is too short, and where the file, of size bytes, is too short for what
// its head says, which decoding all of it will find.
func PartOf(head []byte, size int64, r Region) (from, to int64, ok bool) {
	var start, stride int64
	var height int
	upwards := false
	switch Sniff(head) {
	case BMP:
		l, err := readBMPLayout(head, false)
		if err != nil || l.compressed() {
			return 0, 0, false
		}
		start, stride, height, upwards = l.pixels, l.rowBytes(), l.height, !l.topDown
	case PNM:
		l, err := readPNMLayout(head, false)
		if err != nil || l.plain {
			return 0, 0, false
		}
		start, stride, height = int64(l.raster), l.rowBytes(), l.height
	default:
		return 0, 0, false
	}
	y := r.Y
	if upwards {
		y = height - r.Y - r.H
	}
	if y < 0 || r.H < 1 || y > height-r.H || start+stride*int64(height) > size {
		return 0, 0, false
	}
	return start + stride*int64(y), start + stride*int64(y+r.H), true
}
