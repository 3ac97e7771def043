package decode

import "encoding/binary"

// Flags of a VP8X chunk.
const (
	webpAnimation = 1 << 1
	webpEXIF      = 1 << 3
	webpAlpha     = 1 << 4
)

// webpWalk is the state of reading a WebP's chunks.
type webpWalk struct {
	h          Header
	extended   bool // has VP8X, whose canvas is then h's size
	image      bool // the VP8 or VP8L chunk was seen
	lossless   bool
	alpha      bool
	expectEXIF bool
}

func webpHeader(data []byte, complete bool) (Header, error) {
	end := int64(binary.LittleEndian.Uint32(data[4:])) + 8
	if end < 20 {
		return Header{}, corrupt("a RIFF header of impossible length")
	}
	if complete && end > int64(len(data)) {
		return Header{}, endsEarly(true)
	}
	if end < int64(len(data)) {
		data = data[:end]
	}
	w := webpWalk{h: Header{Format: WebP, Orientation: 1}}
	for p := int64(12); !w.done(); {
		if p >= end {
			break
		}
		if p+8 > int64(len(data)) {
			return Header{}, endsEarly(complete)
		}
		name, size := data[p:p+4], int64(binary.LittleEndian.Uint32(data[p+4:]))
		p += 8
		if p+size > end {
			return Header{}, corrupt("a chunk that is longer than the file")
		}
		body := data[p:min(p+size, int64(len(data)))]
		if err := w.chunk(name, body, size, complete); err != nil {
			return Header{}, err
		}
		p += size + size&1
	}
	if !w.image {
		return Header{}, corrupt("it has no image data")
	}
	w.h.Scratch = webpScratch(w.h.Width, w.h.Height, w.lossless, w.alpha)
	return w.h, nil
}

// done: nothing that follows can change the header.
func (w *webpWalk) done() bool { return w.image && !w.expectEXIF }

// chunk takes one chunk, of which body may be only the beginning.
func (w *webpWalk) chunk(name, body []byte, size int64, complete bool) error {
	short := func(n int64) error {
		if size < n {
			return corrupt("a %s chunk of %d bytes", name, size)
		}
		return endsEarly(complete)
	}
	switch string(name) {
	case "VP8X":
		if len(body) < 10 {
			return short(10)
		}
		return w.canvas(body)
	case "VP8 ":
		if len(body) < 10 {
			return short(10)
		}
		return w.lossy(body)
	case "VP8L":
		if len(body) < 5 {
			return short(5)
		}
		return w.losslessImage(body)
	case "ANMF":
		return unsupported("animated WebP")
	case "EXIF":
		if int64(len(body)) < size {
			return endsEarly(complete)
		}
		w.exif(body)
	}
	return nil
}

func (w *webpWalk) canvas(b []byte) error {
	if w.extended || w.image {
		return corrupt("a VP8X chunk that is not the first")
	}
	w.extended = true
	if b[0]&webpAnimation != 0 {
		return unsupported("animated WebP")
	}
	w.expectEXIF = b[0]&webpEXIF != 0
	w.alpha = b[0]&webpAlpha != 0
	w.h.Width = 1 + int(uint32(b[4])|uint32(b[5])<<8|uint32(b[6])<<16)
	w.h.Height = 1 + int(uint32(b[7])|uint32(b[8])<<8|uint32(b[9])<<16)
	return nil
}

func (w *webpWalk) lossy(b []byte) error {
	if b[0]&1 != 0 || b[3] != 0x9d || b[4] != 0x01 || b[5] != 0x2a {
		return corrupt("its VP8 data does not start with a key frame")
	}
	const side = 1<<14 - 1 // the two bits above are a hint for scaling, which nobody follows
	return w.size(int(binary.LittleEndian.Uint16(b[6:])&side), int(binary.LittleEndian.Uint16(b[8:])&side))
}

func (w *webpWalk) losslessImage(b []byte) error {
	bits := binary.LittleEndian.Uint32(b[1:])
	if b[0] != 0x2f || bits>>29 != 0 {
		return corrupt("its VP8L data does not start as it must")
	}
	w.lossless = true
	const side = 1<<14 - 1
	return w.size(int(bits&side)+1, int(bits>>14&side)+1)
}

func (w *webpWalk) size(width, height int) error {
	if w.image {
		return nil // the first is the image
	}
	if width == 0 || height == 0 {
		return corrupt("a size of %dx%d", width, height)
	}
	if w.extended && (width != w.h.Width || height != w.h.Height) {
		return corrupt("an image of %dx%d on a canvas of %dx%d", width, height, w.h.Width, w.h.Height)
	}
	w.image = true
	w.h.Width, w.h.Height = width, height
	return nil
}

func (w *webpWalk) exif(b []byte) {
	if !w.expectEXIF {
		return
	}
	w.expectEXIF = false
	if hasPrefix(b, exifPrefix) {
		b = b[len(exifPrefix):]
	}
	w.h.Orientation = exifOrientation(b)
}
