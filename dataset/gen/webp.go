package gen

import "encoding/binary"

// webpCoder makes lossless WebP files: green subtracted, each pixel predicted from its
// neighbours, and the differences Huffman coded. No back references, no colour cache. It keeps
// its memory between files and is not safe for concurrent use.
type webpCoder struct {
	out    []byte
	acc    uint64
	n      uint
	pixels []uint32 // ARGB, green subtracted
	diffs  []uint32
}

const (
	webpPredictor     = 0
	webpSubtractGreen = 2
	webpMode          = 11 // "select": the left or the upper pixel, whichever is nearer to the gradient
	webpGreens        = 256 + 24
)

// encode appends the file to dst. pix holds w x h pixels of 3 (RGB) or 4 (RGBA) bytes.
func (e *webpCoder) encode(dst []byte, w, h int, pix []byte, chans int) []byte {
	start := len(dst)
	e.out = append(dst, "RIFF\x00\x00\x00\x00WEBPVP8L\x00\x00\x00\x00\x2f"...)
	e.acc, e.n = 0, 0
	e.put(uint32(w-1), 14)
	e.put(uint32(h-1), 14)
	e.put(uint32(chans/4), 1) // alpha is used
	e.put(0, 3)

	e.subtractGreen(w*h, pix, chans)
	e.predict(w)
	e.put(1, 1)
	e.put(webpSubtractGreen, 2)
	e.put(1, 1)
	e.put(webpPredictor, 2)
	e.put(7, 3) // blocks of 512 pixels; a small picture holds each one's mode in green
	e.put(0, 1) // that picture has no colour cache
	e.onlySymbol(webpMode)
	for range 4 {
		e.onlySymbol(0)
	}
	e.put(0, 1) // no more transforms
	e.put(0, 1) // no colour cache
	e.put(0, 1) // one set of codes for the whole picture
	e.putPixels()
	for e.n > 0 {
		e.put(0, 8-e.n%8)
	}

	payload := len(e.out) - start - 20
	if payload%2 == 1 {
		e.out = append(e.out, 0)
	}
	binary.LittleEndian.PutUint32(e.out[start+4:], uint32(len(e.out)-start-8))
	binary.LittleEndian.PutUint32(e.out[start+16:], uint32(payload))
	return e.out
}

// put appends the low n bits of v, at most 32, least significant first.
func (e *webpCoder) put(v uint32, n uint) {
	e.acc |= uint64(v) << e.n
	e.n += n
	for ; e.n >= 8; e.n -= 8 {
		e.out = append(e.out, byte(e.acc))
		e.acc >>= 8
	}
}

func (e *webpCoder) subtractGreen(n int, pix []byte, chans int) {
	e.pixels = e.pixels[:0]
	for i := range n {
		p := pix[i*chans : (i+1)*chans]
		a := byte(0xFF)
		if chans == 4 {
			a = p[3]
		}
		e.pixels = append(e.pixels, argb(a, p[0]-p[1], p[1], p[2]-p[1]))
	}
}

func argb(a, r, g, b byte) uint32 { return uint32(a)<<24 | uint32(r)<<16 | uint32(g)<<8 | uint32(b) }

// predict fills diffs. The format fixes the predictions of the first pixel, the top row and the
// left column.
func (e *webpCoder) predict(w int) {
	e.diffs = e.diffs[:0]
	for i, p := range e.pixels {
		guess := uint32(0xFF000000)
		switch x := i % w; {
		case i == 0:
		case i < w:
			guess = e.pixels[i-1]
		case x == 0:
			guess = e.pixels[i-w]
		default:
			guess = selectPixel(e.pixels[i-1], e.pixels[i-w], e.pixels[i-w-1])
		}
		e.diffs = append(e.diffs, subtractARGB(p, guess))
	}
}

func subtractARGB(a, b uint32) uint32 {
	return argb(byte(a>>24)-byte(b>>24), byte(a>>16)-byte(b>>16), byte(a>>8)-byte(b>>8), byte(a)-byte(b))
}

func selectPixel(left, above, corner uint32) uint32 {
	toLeft, toAbove := 0, 0
	for shift := 0; shift < 32; shift += 8 {
		l, a, c := int(left>>shift&255), int(above>>shift&255), int(corner>>shift&255)
		toLeft += max(a-c, c-a) // the gradient l+a-c is this far from l
		toAbove += max(l-c, c-l)
	}
	if toLeft < toAbove {
		return left
	}
	return above
}

// webpShifts are the bytes of a pixel in coding order.
var webpShifts = [4]int{8, 16, 0, 24} // green, red, blue, alpha

func (e *webpCoder) putPixels() {
	var lengths [4][webpGreens]uint8
	var codes [4][]uint16
	for c, shift := range webpShifts {
		var counts [webpGreens]int
		for _, p := range e.diffs {
			counts[p>>shift&255]++
		}
		alphabet := 256
		if c == 0 {
			alphabet = webpGreens
		}
		huffmanLengths(lengths[c][:alphabet], counts[:alphabet], 15)
		e.putCode(lengths[c][:alphabet])
		codes[c] = canonicalCodes(lengths[c][:alphabet])
	}
	e.onlySymbol(0) // distances: there are none
	var single [4]bool
	for c := range single {
		single[c] = countUsed(lengths[c][:]) == 1
	}
	for _, p := range e.diffs {
		for c, shift := range webpShifts {
			if s := p >> shift & 255; !single[c] {
				e.put(reverse(codes[c][s], lengths[c][s]), uint(lengths[c][s]))
			}
		}
	}
}

// onlySymbol declares a code of one symbol, which then takes no bits.
func (e *webpCoder) onlySymbol(s uint32) {
	e.put(1, 1) // simple
	e.put(0, 1) // one symbol
	e.put(1, 1) // of eight bits
	e.put(s, 8)
}

// webpLengthOrder is the order of the code lengths of the code for lengths.
var webpLengthOrder = [19]int{17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

// putCode writes the lengths of a code.
func (e *webpCoder) putCode(lengths []uint8) {
	if countUsed(lengths) == 1 {
		for s, l := range lengths {
			if l > 0 {
				e.onlySymbol(uint32(s))
			}
		}
		return
	}
	var counts [19]int
	for _, l := range lengths {
		counts[l]++
	}
	// A single symbol would have a code of no bits; a second one avoids that special case.
	counts[17]++
	var of [19]uint8
	huffmanLengths(of[:], counts[:], 7)
	codes := canonicalCodes(of[:])
	e.put(0, 1)    // not simple
	e.put(19-4, 4) // all lengths of lengths follow
	for _, k := range webpLengthOrder {
		e.put(uint32(of[k]), 3)
	}
	e.put(0, 1) // all symbols follow
	for _, l := range lengths {
		e.put(reverse(codes[l], of[l]), uint(of[l]))
	}
}

func countUsed(lengths []uint8) int {
	n := 0
	for _, l := range lengths {
		if l > 0 {
			n++
		}
	}
	return n
}

// reverse reverses a code's bits, since its first bit is written first.
func reverse(code uint16, n uint8) uint32 {
	r := uint32(0)
	for range n {
		r = r<<1 | uint32(code&1)
		code >>= 1
	}
	return r
}
