package decode

import "encoding/binary"

// Flags of a VP8X chunk.
const (
	webpAnimation = 1 << 1
	webpEXIF      = 1 << 3
)

// webpWalk is the state of reading a WebP's chunks.
type webpWalk struct {
	h          Header
	extended   bool // has VP8X; h's size is then the canvas
	animated   bool
	anim       bool      // the ANIM chunk was seen
	image      webpImage // zero until the VP8 or VP8L chunk is seen
	expectEXIF bool
}

// webpImage locates the pixels: a picture the size of the canvas, or an animation's first frame,
// which may be smaller. Alpha is dropped, so its separate chunk is not read.
type webpImage struct {
	from, to      int64 // of the VP8 or VP8L data in the file
	lossless      bool
	x, y          int // on the canvas
	width, height int
}

// shown is the part of a region of the canvas that the image covers.
func (i *webpImage) shown(r Region) Region {
	x, y := max(r.X, i.x), max(r.Y, i.y)
	w, h := min(r.X+r.W, i.x+i.width)-x, min(r.Y+r.H, i.y+i.height)-y
	if w <= 0 || h <= 0 {
		return Region{}
	}
	return Region{x, y, w, h}
}

// blacken clears a view's destination.
func blacken(dst Image, v View) {
	height, width := v.size()
	for y := range height {
		clear(dst.Pix[y*dst.Stride:][:width*v.Color.Channels()])
	}
}

func webpHeader(data []byte, complete bool) (Header, error) {
	w, err := readWebP(data, complete)
	return w.h, err
}

// readWebP reads chunks until nothing that follows can change the header.
func readWebP(data []byte, complete bool) (webpWalk, error) {
	end := int64(binary.LittleEndian.Uint32(data[4:])) + 8
	if end < 20 {
		return webpWalk{}, corrupt("a RIFF header of impossible length")
	}
	if complete && end > int64(len(data)) {
		return webpWalk{}, endsEarly(true)
	}
	if end < int64(len(data)) {
		data = data[:end]
	}
	w := webpWalk{h: Header{Format: WebP, Orientation: 1}}
	for p := int64(12); p < end && !w.done(); {
		c, err := webpChunkAt(data, p, end, complete)
		if err != nil {
			return webpWalk{}, err
		}
		if err := w.chunk(c, data, complete); err != nil {
			return webpWalk{}, err
		}
		p = c.next()
	}
	if w.image == (webpImage{}) {
		return webpWalk{}, corrupt("it has no image data")
	}
	i := &w.image
	w.h.Scratch = webpScratch(i.width, i.height, i.lossless)
	if !i.lossless {
		// A macroblock's modes have fixed probabilities: together they take more than a bit and
		// a half.
		w.h.least = int64((i.width+15)/16) * int64((i.height+15)/16) / 8
	}
	return w, nil
}

// webpChunk is one chunk; its body may be incomplete.
type webpChunk struct {
	name []byte
	body []byte
	at   int64 // where the body starts
	size int64
}

func (c *webpChunk) next() int64 { return c.at + c.size + c.size&1 }

// short returns the error for a body of fewer than n bytes.
func (c *webpChunk) short(n int64, complete bool) error {
	if c.size < n {
		return corrupt("a %s chunk of %d bytes", c.name, c.size)
	}
	return endsEarly(complete)
}

// webpChunkAt returns the chunk at p, which must not extend beyond end.
func webpChunkAt(data []byte, p, end int64, complete bool) (c webpChunk, err error) {
	if p+8 > int64(len(data)) {
		return c, endsEarly(complete)
	}
	c = webpChunk{name: data[p : p+4], at: p + 8, size: int64(binary.LittleEndian.Uint32(data[p+4:]))}
	if c.at+c.size > end {
		return c, corrupt("a chunk that is longer than what it is in")
	}
	c.body = data[c.at:min(c.at+c.size, int64(len(data)))]
	return c, nil
}

// done reports that nothing that follows can change the header.
func (w *webpWalk) done() bool { return w.image != (webpImage{}) && !w.expectEXIF }

func (w *webpWalk) chunk(c webpChunk, data []byte, complete bool) error {
	switch string(c.name) {
	case "VP8X":
		if len(c.body) < 10 {
			return c.short(10, complete)
		}
		return w.canvas(c.body)
	case "VP8 ", "VP8L":
		if w.animated {
			return corrupt("an animation with an image that is no frame")
		}
		return w.bitstream(c, webpImage{width: w.h.Width, height: w.h.Height}, complete)
	case "ANIM":
		w.anim = true
	case "ANMF":
		switch {
		case !w.animated:
			return unsupported("WebP with frames that says it is no animation")
		case !w.anim:
			return corrupt("a frame before the ANIM chunk")
		case w.image == (webpImage{}): // the first frame
			return w.frame(c, data, complete)
		}
	case "EXIF":
		if int64(len(c.body)) < c.size {
			return endsEarly(complete)
		}
		w.exif(c.body)
	}
	return nil
}

func (w *webpWalk) canvas(b []byte) error {
	if w.extended || w.image != (webpImage{}) {
		return corrupt("a VP8X chunk that is not the first")
	}
	w.extended = true
	w.animated = b[0]&webpAnimation != 0
	w.expectEXIF = b[0]&webpEXIF != 0
	w.h.Width, w.h.Height = 1+uint24(b[4:]), 1+uint24(b[7:])
	return nil
}

func uint24(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }

// frame reads the header of an animation's frame, and its chunks up to the image.
func (w *webpWalk) frame(c webpChunk, data []byte, complete bool) error {
	const head = 16
	if len(c.body) < head {
		return c.short(head, complete)
	}
	b := c.body
	i := webpImage{x: 2 * uint24(b), y: 2 * uint24(b[3:]), width: 1 + uint24(b[6:]), height: 1 + uint24(b[9:])}
	if i.x+i.width > w.h.Width || i.y+i.height > w.h.Height {
		return corrupt("a frame that is not on its canvas")
	}
	end := c.at + c.size
	for p := c.at + head; p < end; {
		part, err := webpChunkAt(data, p, end, complete)
		if err != nil {
			return err
		}
		if name := string(part.name); name == "VP8 " || name == "VP8L" {
			return w.bitstream(part, i, complete)
		}
		p = part.next()
	}
	return corrupt("a frame without an image")
}

// bitstream reads the header of a VP8 or VP8L chunk. i has the image's place and size, except in
// a file without VP8X, where only this header states the size.
func (w *webpWalk) bitstream(c webpChunk, i webpImage, complete bool) error {
	if w.image != (webpImage{}) {
		return nil // the first one counts
	}
	size := vp8Size
	least := int64(10)
	if c.name[3] == 'L' {
		size, least, i.lossless = vp8lSize, 5, true
	}
	if int64(len(c.body)) < least {
		return c.short(least, complete)
	}
	width, height, err := size(c.body)
	switch {
	case err != nil:
		return err
	case width == 0 || height == 0:
		return corrupt("a size of %dx%d", width, height)
	case w.animated && (width != i.width || height != i.height):
		return corrupt("an image of %dx%d in a frame of %dx%d", width, height, i.width, i.height)
	case w.extended && !w.animated && (width != w.h.Width || height != w.h.Height):
		return corrupt("an image of %dx%d on a canvas of %dx%d", width, height, w.h.Width, w.h.Height)
	case !w.extended:
		w.h.Width, w.h.Height = width, height
	}
	i.width, i.height = width, height
	i.from, i.to = c.at, c.at+c.size
	w.image = i
	return nil
}

// vp8Size reads the first 10 bytes of lossy data.
func vp8Size(b []byte) (width, height int, err error) {
	if b[0]&1 != 0 || b[3] != 0x9d || b[4] != 0x01 || b[5] != 0x2a {
		return 0, 0, corrupt("its VP8 data does not start with a key frame")
	}
	const side = 1<<14 - 1 // the two bits above are a scaling hint, which decoders ignore
	return int(binary.LittleEndian.Uint16(b[6:]) & side), int(binary.LittleEndian.Uint16(b[8:]) & side), nil
}

// vp8lSize reads the first 5 bytes of lossless data.
func vp8lSize(b []byte) (width, height int, err error) {
	bits := binary.LittleEndian.Uint32(b[1:])
	if b[0] != 0x2f || bits>>29 != 0 {
		return 0, 0, corrupt("its VP8L data does not start as it must")
	}
	const side = 1<<14 - 1
	return int(bits&side) + 1, int(bits>>14&side) + 1, nil
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
