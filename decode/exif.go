package decode

import "encoding/binary"

// exifPrefix precedes the TIFF structure in a JPEG's APP1 and, from some writers, in a WebP's
// EXIF chunk.
const exifPrefix = "Exif\x00\x00"

const tagOrientation = 0x0112

// exifOrientation returns the orientation in the first directory of a TIFF structure, or 1:
// invalid EXIF must not make an image unreadable.
func exifOrientation(tiff []byte) uint8 {
	order, ok := tiffOrder(tiff)
	if !ok {
		return 1
	}
	at := uint64(order.Uint32(tiff[4:]))
	if at+2 > uint64(len(tiff)) {
		return 1
	}
	entries := tiff[at+2:]
	for n := int(order.Uint16(tiff[at:])); n > 0 && len(entries) >= 12; n-- {
		if order.Uint16(entries) == tagOrientation {
			return orientationValue(order, entries)
		}
		entries = entries[12:]
	}
	return 1
}

// byteOrder is binary.ByteOrder without the interface, whose calls would make the data escape.
type byteOrder bool

const (
	little byteOrder = false
	big    byteOrder = true
)

func (b byteOrder) Uint16(p []byte) uint16 {
	if b == big {
		return binary.BigEndian.Uint16(p)
	}
	return binary.LittleEndian.Uint16(p)
}

func (b byteOrder) Uint32(p []byte) uint32 {
	if b == big {
		return binary.BigEndian.Uint32(p)
	}
	return binary.LittleEndian.Uint32(p)
}

func tiffOrder(tiff []byte) (byteOrder, bool) {
	switch {
	case len(tiff) < 8:
		return little, false
	case string(tiff[:4]) == "II*\x00":
		return little, true
	case string(tiff[:4]) == "MM\x00*":
		return big, true
	}
	return little, false
}

// orientationValue reads one directory entry: tag, type, count, value.
func orientationValue(order byteOrder, entry []byte) uint8 {
	const short, long = 3, 4
	var v uint32
	switch order.Uint16(entry[2:]) {
	case short:
		v = uint32(order.Uint16(entry[8:]))
	case long:
		v = order.Uint32(entry[8:])
	}
	if v < 1 || v > 8 {
		return 1
	}
	return uint8(v)
}
