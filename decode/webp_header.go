package decode

import (
	"bytes"
	"encoding/binary"
)

// Flags of a VP8X chunk.
const (
	webpAnimation = 1 << 1
	webpEXIF      = 1 << 3
)

// webpFile is the content of a WebP's chunks. Alpha is dropped, so its separate chunk is not read.
type webpFile struct {
	h          Header
	extended   bool // has VP8X; h's size is then the canvas
	animated   bool
	anim       bool // the ANIM chunk was seen
	expectEXIF bool
	image      webpImage // zero until the VP8 or VP8L chunk is seen
}

// webpImage locates the pixels: a picture the size of the canvas, or an animation's first frame,
// which may be smaller.
type webpImage struct {
	from, to      int64 // of the VP8 or VP8L data in the file
	lossless      bool
	x, y          int // on the canvas
	width, height int
}

func webpHeader(data []byte, complete bool) (Header, error) {
	w, err := readWebP(data, complete)
	return w.h, err
}

// readWebP reads chunks until nothing that follows can change the header.
func readWebP(data []byte, complete bool) (w webpFile, err error) {
	end := int64(binary.LittleEndian.Uint32(data[4:])) + 8
	if end < 20 {
		return w, corrupt("a RIFF header of impossible length")
	}
	if complete && end > int64(len(data)) {
		return w, endsEarly(true)
	}
	data = data[:min(end, int64(len(data)))]
	w.h = Header{Format: WebP, Orientation: 1}
	for p := int64(12); p < end && (w.image == (webpImage{}) || w.expectEXIF); {
		c, err := webpChunkAt(data, p, end, complete)
		if err == nil {
			err = w.chunk(c, data, complete)
		}
		if err != nil {
			return w, err
		}
		p = c.next()
	}
	i := &w.image
	if *i == (webpImage{}) {
		return w, corrupt("it has no image data")
	}
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

func (c *webpChunk) next() int64 { return c.at + c.size + c.size&1 }

// needs returns an error if there are fewer than n bytes of the body.
func (c *webpChunk) needs(n int64, complete bool) error {
	switch {
	case c.size < n:
		return corrupt("a %s chunk of %d bytes", c.name, c.size)
	case int64(len(c.body)) < n:
		return endsEarly(complete)
	}
	return nil
}

func (w *webpFile) chunk(c webpChunk, data []byte, complete bool) error {
	switch string(c.name) {
	case "VP8X":
		return w.canvas(c, complete)
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
		if err := c.needs(c.size, complete); err != nil {
			return err
		}
		if w.expectEXIF {
			w.expectEXIF = false
			w.h.Orientation = exifOrientation(bytes.TrimPrefix(c.body, []byte(exifPrefix)))
		}
	}
	return nil
}

func (w *webpFile) canvas(c webpChunk, complete bool) error {
	if err := c.needs(10, complete); err != nil {
		return err
	}
	if w.extended || w.image != (webpImage{}) {
		return corrupt("a VP8X chunk that is not the first")
	}
	w.extended, w.animated, w.expectEXIF = true, c.body[0]&webpAnimation != 0, c.body[0]&webpEXIF != 0
	w.h.Width, w.h.Height = 1+uint24(c.body[4:]), 1+uint24(c.body[7:])
	return nil
}

func uint24(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }

// frame reads the header of an animation's frame, and its chunks up to the image.
func (w *webpFile) frame(c webpChunk, data []byte, complete bool) error {
	const head = 16
	if err := c.needs(head, complete); err != nil {
		return err
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
func (w *webpFile) bitstream(c webpChunk, i webpImage, complete bool) error {
	if w.image != (webpImage{}) {
		return nil // the first one counts
	}
	least := int64(10)
	if i.lossless = c.name[3] == 'L'; i.lossless {
		least = 5
	}
	if err := c.needs(least, complete); err != nil {
		return err
	}
	width, height, ok := vp8Size(c.body, i.lossless)
	switch {
	case !ok:
		return corrupt("its data does not start like a key frame or a lossless image")
	case width == 0 || height == 0:
		return corrupt("a size of %dx%d", width, height)
	case w.extended && (width != i.width || height != i.height):
		return corrupt("an image of %dx%d on a canvas or in a frame of %dx%d", width, height, i.width, i.height)
	case !w.extended:
		w.h.Width, w.h.Height = width, height
	}
	i.width, i.height = width, height
	i.from, i.to = c.at, c.at+c.size
	w.image = i
	return nil
}

// vp8Size reads the start of lossy or lossless data: 10 or 5 bytes. ok is false if it does not
// start an image.
func vp8Size(b []byte, lossless bool) (width, height int, ok bool) {
	const side = 1<<14 - 1
	if lossless {
		bits := binary.LittleEndian.Uint32(b[1:])
		return int(bits&side) + 1, int(bits>>14&side) + 1, b[0] == 0x2f && bits>>29 == 0
	}
	// The two bits above each side are a scaling hint, which decoders ignore.
	return int(binary.LittleEndian.Uint16(b[6:]) & side), int(binary.LittleEndian.Uint16(b[8:]) & side),
		b[0]&1 == 0 && string(b[3:6]) == "\x9d\x01\x2a"
}
