package decode

// rawRows says where a file has its uncompressed rows.
type rawRows struct {
	start, stride, height int64
	upwards               bool // the last row comes first
}

func (r rawRows) end() int64 { return r.start + r.stride*r.height }

// at returns where row y starts.
func (r rawRows) at(y int) int64 {
	if r.upwards {
		return r.start + r.stride*(r.height-1-int64(y))
	}
	return r.start + r.stride*int64(y)
}

// PartOf returns the byte range of a file, besides the header, that is read to decode a region of
// its stored image at 1/scale. Only files with uncompressed rows, and packed images, allow this. ok
// is false for all other formats, if head is too short (see PackedFront), and if the file, of size
// bytes, is shorter than its header says; decoding all of it reports that.
func PartOf(head []byte, size int64, r Region, scale int) (from, to int64, ok bool) {
	var raw rawRows
	switch Sniff(head) {
	case Packed:
		return packedPart(head, size, r, scale)
	case BMP:
		if l, err := readBMPLayout(head, false); err == nil && !l.compressed() {
			raw = l.raw()
		}
	case PNM:
		if l, err := readPNMLayout(head, false); err == nil && !l.plain {
			raw = l.raw()
		}
	}
	if r.Y < 0 || r.H < 1 || int64(r.Y) > raw.height-int64(r.H) || raw.end() > size {
		return 0, 0, false
	}
	first, last := raw.at(r.Y), raw.at(r.Y+r.H-1)
	return min(first, last), max(first, last) + raw.stride, true
}
