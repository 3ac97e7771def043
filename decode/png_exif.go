package decode

import "bytes"

// A PNG's eXIf may stand before its pixels or behind them. One before them is found
// on the way to them, and counts more. For one behind them the way is too long: an index
// must not read whole files. So the end of the file is searched, and that by the same rule
// where all of the file is at hand, since index and decoding have to agree:
//
// A sound eXIf counts that begins behind the start of the first IDAT and in the file's last
// pngTail bytes, and from which chunks, none of them IDAT, lead to an IEND. Bytes behind that
// are ignored, and so is an eXIf behind an IEND: it belongs to something that was appended.
// Compressed data and text that look like all this by chance would have to guess a checksum, and
// where IEND is.

// pngTail is how much of a file's end is searched: room for the largest EXIF that
// cameras write, with its thumbnail.
const pngTail = 64 << 10

// pngTries is how many chunks are looked at that turn out to be none: a hostile file could
// have thousands, each with much to check.
const pngTries = 8

var (
	pngEXIFName = []byte("eXIf")
	pngEnd      = []byte("\x00\x00\x00\x00IEND\xae\x42\x60\x82")
)

// Tail is how many of the last bytes of a file of size bytes WithTail needs, for a header
// that was read from a prefix: up to 64 KiB of a PNG without EXIF before its
// pixels. 0: the header is all there is to know.
func (h Header) Tail(size int64) int {
	if h.pixelsAt == 0 {
		return 0
	}
	return int(max(0, min(size-h.pixelsAt, pngTail)))
}

// WithTail is the header with the orientation that the last h.Tail(size) bytes of the file
// tell: the one that ReadHeader finds in the complete file. tail is not kept.
func (h Header) WithTail(tail []byte) Header {
	if h.pixelsAt > 0 {
		h.Orientation, h.pixelsAt = pngLateOrientation(tail), 0
	}
	return h
}

// pngLateOrientation is the orientation behind the pixels, 1 where there is none. tail is a
// file's end, from its first IDAT at the earliest.
func pngLateOrientation(tail []byte) uint8 {
	tail = tail[max(0, len(tail)-pngTail):]
	tries := 0
	for next := 0; tries < pngTries; next += len(pngEXIFName) {
		i := bytes.Index(tail[next:], pngEXIFName)
		if i < 0 {
			break
		}
		next += i
		chunk, ok := pngEXIFAt(tail, next-4)
		if !ok {
			continue
		}
		tries++
		if o, ok := pngOrientation(chunk); ok {
			if o, ok = pngUpToEnd(tail, next-4+len(chunk), o); ok && !bytes.Contains(tail[:next], pngEnd) {
				return o
			}
		}
	}
	return 1
}

// pngEXIFAt is the chunk at p, if that can be an eXIf.
func pngEXIFAt(tail []byte, p int) (chunk []byte, ok bool) {
	if p < 0 {
		return nil, false
	}
	n, _, _ := pngHead(tail, p)
	if n > int64(len(tail)-p-pngOverhead) {
		return nil, false
	}
	_, ok = tiffOrder(tail[p+8 : p+8+int(n)])
	return tail[p : p+pngOverhead+int(n)], ok
}

// pngUpToEnd reports whether chunks lead from p to IEND, and returns the orientation that the
// last sound eXIf among them names, else the given one.
func pngUpToEnd(tail []byte, p int, orientation uint8) (o uint8, ok bool) {
	for {
		n, name, ok := pngHead(tail, p)
		if !ok || name == "IDAT" || n > int64(len(tail)-p-pngOverhead) {
			return 0, false
		}
		chunk := tail[p : p+pngOverhead+int(n)]
		switch name {
		case "IEND":
			return orientation, bytes.Equal(chunk, pngEnd)
		case "eXIf":
			if o, ok := pngOrientation(chunk); ok {
				orientation = o
			}
		}
		p += len(chunk)
	}
}

// pngOrientation is what a whole eXIf chunk says, if its checksum is right and it holds EXIF
// at all.
func pngOrientation(chunk []byte) (orientation uint8, ok bool) {
	tiff := chunk[8 : len(chunk)-4]
	if _, ok := tiffOrder(tiff); !ok || !pngSound(chunk[4:]) {
		return 0, false
	}
	return exifOrientation(tiff), true
}
