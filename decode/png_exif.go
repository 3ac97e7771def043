package decode

import "bytes"

// A PNG's eXIf chunk may come before or after its pixels. One before them is found on the way to
// them, and takes precedence. Walking the chunks to find one after them would make an index read
// whole files, so only the end of the file is searched. The same rule applies when the whole
// file is available, because index and decoding must agree:
//
// A sound eXIf counts if it begins after the start of the first IDAT and within the file's last
// pngTail bytes, and if the chunks that follow it lead to an IEND with no IDAT among them. Bytes
// after that IEND are ignored, and so is an eXIf after any IEND: it belongs to something that
// was appended. Compressed data or text could pass for such an eXIf only with a matching
// checksum and chunk lengths that happen to lead to IEND.

// pngTail is how many bytes at a file's end are searched: enough for the largest EXIF that
// cameras write, with its thumbnail.
const pngTail = 64 << 10

// pngTries limits how many candidate chunks are checked: a hostile file could contain thousands,
// each expensive to check.
const pngTries = 8

var (
	pngEXIFName = []byte("eXIf")
	pngEnd      = []byte("\x00\x00\x00\x00IEND\xae\x42\x60\x82")
)

// Tail is the number of bytes at the end of a file of size bytes that WithTail needs, for a
// header that was read from a prefix: up to 64 KiB for a PNG without EXIF before its pixels.
// 0 means that the header is already complete.
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

// pngEXIFAt returns the chunk at p if it may be an eXIf.
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

// pngUpToEnd reports whether chunks lead from p to IEND, and returns the orientation of the last
// sound eXIf among them, else the given one.
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

// pngOrientation returns the orientation in a whole eXIf chunk, if its checksum is right and it
// contains EXIF.
func pngOrientation(chunk []byte) (orientation uint8, ok bool) {
	tiff := chunk[8 : len(chunk)-4]
	if _, ok := tiffOrder(tiff); !ok || !pngSound(chunk[4:]) {
		return 0, false
	}
	return exifOrientation(tiff), true
}
