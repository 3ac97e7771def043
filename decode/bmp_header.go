package decode

import "encoding/binary"

// BMP compression methods.
const (
	bmpRGB            = 0
	bmpRLE8           = 1
	bmpRLE4           = 2
	bmpBitfields      = 3
	bmpAlphaBitfields = 6
)

const (
	bmpFileHeader = 14 // "BM", sizes, and where the pixels start
	bmpCore       = 12 // the info header of OS/2 1.x
	bmpInfo       = 40 // the smallest info header of Windows
)

// bmpLayout is the content of a BMP's headers.
type bmpLayout struct {
	width, height int
	topDown       bool
	bits          int // per pixel
	info          int // bytes of the info header
	compression   uint32
	colors        uint32    // of the palette; 0: all
	masks         [3]uint32 // red, green and blue, with 16 and 32 bits per pixel
	palette       []byte    // entries of paletteEntry bytes: blue, green, red
	paletteEntry  int
	pixels        int64 // where they start
}

func bmpHeader(data []byte, complete bool) (Header, error) {
	l, err := readBMPLayout(data, complete)
	if err != nil {
		return Header{}, err
	}
	h := Header{Format: BMP, Width: l.width, Height: l.height, Orientation: 1, least: l.pixels, stored: 4}
	if !l.compressed() {
		h.least = l.raw().end()
	}
	return h, nil
}

// raw returns the place of uncompressed rows, which are padded to 4 bytes.
func (l *bmpLayout) raw() rawRows {
	return rawRows{l.pixels, (int64(l.width)*int64(l.bits) + 31) / 32 * 4, int64(l.height), !l.topDown}
}

func (l *bmpLayout) compressed() bool { return l.compression == bmpRLE4 || l.compression == bmpRLE8 }

func (l *bmpLayout) fields() bool {
	return l.compression == bmpBitfields || l.compression == bmpAlphaBitfields
}

func readBMPLayout(data []byte, complete bool) (l bmpLayout, err error) {
	if len(data) < bmpFileHeader+4 {
		return l, endsEarly(complete)
	}
	info := binary.LittleEndian.Uint32(data[bmpFileHeader:])
	switch info {
	case bmpCore, 16, bmpInfo, 52, 56, 64, 108, 124:
		l.info = int(info)
	default:
		return l, unsupported("BMP with an info header of %d bytes", info)
	}
	end := bmpFileHeader + l.info
	if len(data) < end {
		return l, endsEarly(complete)
	}
	l.pixels = int64(binary.LittleEndian.Uint32(data[10:]))
	l.readInfo(data[bmpFileHeader:end])
	if err := l.check(); err != nil {
		return l, err
	}
	if l.fields() {
		if end, err = l.readMasks(data, complete); err != nil {
			return l, err
		}
	}
	return l, l.readPalette(data, int64(end), complete)
}

func (l *bmpLayout) readInfo(b []byte) {
	le := binary.LittleEndian
	if len(b) == bmpCore {
		l.width, l.height = int(le.Uint16(b[4:])), int(le.Uint16(b[6:]))
		l.bits, l.paletteEntry = int(le.Uint16(b[10:])), 3
	} else {
		l.width, l.height = int(int32(le.Uint32(b[4:]))), int(int32(le.Uint32(b[8:])))
		l.bits, l.paletteEntry = int(le.Uint16(b[14:])), 4
	}
	if len(b) >= bmpInfo {
		l.compression, l.colors = le.Uint32(b[16:]), le.Uint32(b[32:])
	}
	if l.height < 0 {
		l.height, l.topDown = -l.height, true
	}
	switch l.bits {
	case 16:
		l.masks = [3]uint32{0x7c00, 0x03e0, 0x001f}
	case 32:
		l.masks = [3]uint32{0xff0000, 0xff00, 0xff}
	}
}

func (l *bmpLayout) check() error {
	if err := checkSide(int64(l.width), int64(l.height)); err != nil {
		return err
	}
	switch l.bits {
	case 1, 2, 4, 8, 16, 24, 32:
	default:
		return corrupt("%d bits a pixel", l.bits)
	}
	const os2 = 64 // in this header, methods 3 and 4 mean something else
	c := l.compression
	switch {
	case c != bmpRGB && !(c == bmpRLE8 && l.bits == 8) && !(c == bmpRLE4 && l.bits == 4) && !(l.fields() && l.info != os2):
		return unsupported("BMP with compression method %d and %d bits", c, l.bits)
	case l.compressed() && l.topDown:
		return corrupt("compressed rows from the top")
	case l.fields() && l.bits != 16 && l.bits != 32:
		return corrupt("bit fields in %d bits a pixel", l.bits)
	}
	return nil
}

// readMasks reads the channel masks, which are in the info header or, if it has no room for
// them, directly after it. It returns where they end.
func (l *bmpLayout) readMasks(data []byte, complete bool) (end int, err error) {
	const at = bmpFileHeader + bmpInfo
	end = at + 12
	if l.compression == bmpAlphaBitfields {
		end = at + 16
	}
	if len(data) < end {
		return 0, endsEarly(complete)
	}
	for i := range l.masks {
		m := binary.LittleEndian.Uint32(data[at+4*i:])
		contiguous := (m+m&-m)&m == 0
		if m == 0 || l.bits == 16 && m > 0xffff || !contiguous {
			return 0, corrupt("a channel in bits %#x", m)
		}
		l.masks[i] = m
	}
	return max(end, bmpFileHeader+l.info), nil
}

// readPalette finds the palette, which lies between the headers, which end at end, and the pixels.
func (l *bmpLayout) readPalette(data []byte, end int64, complete bool) error {
	if l.pixels < end {
		return corrupt("pixels that start inside its headers")
	}
	if l.bits > 8 {
		return nil
	}
	n := int64(1) << l.bits
	if l.colors > 0 {
		n = min(n, int64(l.colors))
	}
	n = min(n*int64(l.paletteEntry), l.pixels-end)
	if end+n > int64(len(data)) {
		return endsEarly(complete)
	}
	l.palette = data[end : end+n]
	return nil
}
