package decode

// PartOf returns the byte range of a file that decoding a region of its stored image reads,
// apart from the header. Only uncompressed rows of pixels allow this. ok is false for all other
// formats, if head is too short, and if the file, of size bytes, is too short for what its
// header says; decoding all of it reports that.
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
