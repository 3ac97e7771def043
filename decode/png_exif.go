package decode

import "bytes"

// An eXIf chunk before the pixels takes precedence; of several in the same place the last counts,
// as in Pillow, and one with a wrong checksum is ignored. To find one after the pixels, only the
// end of the file is searched, so that an index need not read whole files: it counts if it begins
// after the start of the first IDAT and within the last pngTail bytes, before any IEND, and if the
// chunks that follow it lead to an IEND with no IDAT among them. Compressed data or text could
// pass for it only with a matching checksum and chunk lengths that happen to lead to IEND.

const (
	pngTail  = 64 << 10 // searched at a file's end: the largest EXIF of cameras, with its thumbnail
	pngTries = 8        // chunks checked: a hostile file could contain thousands, each expensive to check
)

var (
	pngEXIFName = []byte("eXIf")
	pngEnd      = []byte("\x00\x00\x00\x00IEND\xae\x42\x60\x82")
)

// Tail is the number of bytes at the end of a file of size bytes that WithTail needs: up to
// 64 KiB for a PNG without EXIF before its pixels, 0 if the header is complete.
func (h Header) Tail(size int64) int {
	if h.pixelsAt == 0 {
		return 0
	}
	return int(max(0, min(size-h.pixelsAt, pngTail)))
}

// WithTail returns the header with the orientation found in tail, the last h.Tail(size) bytes of
// the file. The result equals that of ReadHeader on the complete file. It does not retain tail.
func (h Header) WithTail(tail []byte) Header {
	if h.pixelsAt > 0 {
		h.Orientation, h.pixelsAt = pngLateOrientation(tail), 0
	}
	return h
}

// pngLateOrientation returns the orientation after the pixels, 1 if there is none. tail is the
// end of the file and starts no earlier than its first IDAT.
func pngLateOrientation(tail []byte) uint8 {
	tail = tail[max(0, len(tail)-pngTail):]
	tries := 0
	for next := 0; tries < pngTries; next += len(pngEXIFName) {
		i := bytes.Index(tail[next:], pngEXIFName)
		if i < 0 {
			break
		}
		next += i
		chunk, ok := pngChunk(tail, next-4)
		if !ok || tiffOrder(chunk[8:len(chunk)-4]) == nil {
			continue
		}
		tries++
		if _, ok = pngOrientation(chunk); !ok {
			continue
		}
		if o, ok := pngUpToEnd(tail, next-4); ok && !bytes.Contains(tail[:next], pngEnd) {
			return o
		}
	}
	return 1
}

// pngUpToEnd reports whether chunks lead from p to IEND with no IDAT among them, and returns the
// orientation of the last sound eXIf.
func pngUpToEnd(tail []byte, p int) (orientation uint8, ok bool) {
	for chunk := range pngChunks(tail, p) {
		switch string(chunk[4:8]) {
		case "IDAT":
			return 0, false
		case "IEND":
			return orientation, bytes.Equal(chunk, pngEnd)
		case "eXIf":
			if o, ok := pngOrientation(chunk); ok {
				orientation = o
			}
		}
	}
	return 0, false
}

// pngOrientation returns the orientation in a whole eXIf chunk, if its checksum is right and it
// contains EXIF.
func pngOrientation(chunk []byte) (orientation uint8, ok bool) {
	tiff := chunk[8 : len(chunk)-4]
	if tiffOrder(tiff) == nil || !pngSound(chunk[4:]) {
		return 0, false
	}
	return exifOrientation(tiff), true
}
