package gen

import (
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
)

// PNG colour types.
const (
	pngGray      = 0
	pngRGB       = 2
	pngPalette   = 3
	pngGrayAlpha = 4
	pngRGBA      = 6
)

// pngChannels is the number of samples in a pixel of each colour type.
var pngChannels = [7]int{pngGray: 1, pngRGB: 3, pngPalette: 1, pngGrayAlpha: 2, pngRGBA: 4}

// pngFilter says how rows choose their filter.
type pngFilter uint8

const (
	pngAdaptive pngFilter = iota // the one with the smallest sum of differences
	pngCycle                     // row y uses filter y mod 5, so that a decoder meets all
	pngNone
)

// pngStyle is everything about a PNG file except its pixels.
type pngStyle struct {
	color, depth int
	interlace    bool
	filter       pngFilter
	level        int    // of compress/zlib
	palette      []byte // RGB triples
	transparent  []byte // content of a tRNS chunk
	chunk        int    // bytes per IDAT chunk; 0: all in one
}

// pngCoder makes PNG files and keeps its memory between them. It is not safe for concurrent use.
type pngCoder struct {
	deflaters map[int]*zlib.Writer // by level
	out       []byte
	idat      []byte
	lines     [6][]byte // the five filtered forms of a row, and a row of zeros
	pass      []byte
}

// Write takes the deflater's output.
func (e *pngCoder) Write(p []byte) (int, error) {
	e.idat = append(e.idat, p...)
	return len(p), nil
}

// encode appends the file to dst. rows are h rows of samples, packed for the style's colour type
// and depth as in the format, most significant byte first.
func (e *pngCoder) encode(dst []byte, w, h int, rows []byte, style pngStyle) []byte {
	e.out = append(dst, "\x89PNG\r\n\x1a\n"...)
	interlace := byte(0)
	if style.interlace {
		interlace = 1
	}
	header := binary.BigEndian.AppendUint32(nil, uint32(w))
	header = binary.BigEndian.AppendUint32(header, uint32(h))
	e.chunk("IHDR", append(header, byte(style.depth), byte(style.color), 0, 0, interlace))
	if style.palette != nil {
		e.chunk("PLTE", style.palette)
	}
	if style.transparent != nil {
		e.chunk("tRNS", style.transparent)
	}
	e.idat = e.idat[:0]
	deflate := e.deflater(style.level)
	if style.interlace {
		for _, p := range adam7 {
			e.putPass(deflate, w, h, rows, p, style)
		}
	} else {
		e.putRows(deflate, w, h, rows, style)
	}
	deflate.Close() // cannot fail, since Write does not
	for at := 0; at < len(e.idat); {
		n := len(e.idat) - at
		if style.chunk > 0 {
			n = min(n, style.chunk)
		}
		e.chunk("IDAT", e.idat[at:at+n])
		at += n
	}
	e.chunk("IEND", nil)
	return e.out
}

func (e *pngCoder) deflater(level int) *zlib.Writer {
	if e.deflaters == nil {
		e.deflaters = map[int]*zlib.Writer{}
	}
	z, ok := e.deflaters[level]
	if !ok {
		z, _ = zlib.NewWriterLevel(e, level) // cannot fail: this package chooses the levels
		e.deflaters[level] = z
	}
	z.Reset(e)
	return z
}

func (e *pngCoder) chunk(kind string, content []byte) {
	e.out = binary.BigEndian.AppendUint32(e.out, uint32(len(content)))
	start := len(e.out)
	e.out = append(append(e.out, kind...), content...)
	e.out = binary.BigEndian.AppendUint32(e.out, crc32.ChecksumIEEE(e.out[start:]))
}

// putRows filters and compresses one picture, or one pass of an interlaced one.
func (e *pngCoder) putRows(deflate *zlib.Writer, w, h int, rows []byte, style pngStyle) {
	bits := pngChannels[style.color] * style.depth
	stride, back := (w*bits+7)/8, max(1, bits/8)
	for i := range e.lines {
		if cap(e.lines[i]) < stride+1 {
			e.lines[i] = make([]byte, stride+1)
		}
		e.lines[i] = e.lines[i][:stride+1]
	}
	above := e.lines[5][:stride]
	clear(above)
	for y := range h {
		row := rows[y*stride : (y+1)*stride]
		deflate.Write(e.filterRow(row, above, back, y, style))
		above = row
	}
}

// filterRow returns the row for the deflater, starting with its filter's number. Small depths
// are not filtered, as the standard advises.
func (e *pngCoder) filterRow(row, above []byte, back, y int, style pngStyle) []byte {
	best := 0
	switch {
	case style.filter == pngCycle:
		best = y % 5
		filterPNG(e.lines[best][1:], row, above, back, best)
	case style.filter == pngAdaptive && style.depth >= 8 && style.color != pngPalette:
		smallest := -1
		for f := range 5 {
			filterPNG(e.lines[f][1:], row, above, back, f)
			if sum := sumOfDifferences(e.lines[f][1:]); smallest < 0 || sum < smallest {
				smallest, best = sum, f
			}
		}
	default:
		copy(e.lines[0][1:], row)
	}
	e.lines[best][0] = byte(best)
	return e.lines[best]
}

// filterPNG writes the filtered row to dst; back is the distance to the pixel on the left, at
// least one byte.
func filterPNG(dst, row, above []byte, back, filter int) {
	n := len(row)
	dst, above = dst[:n], above[:n]
	start := min(back, n)
	left, corner := row[:n-start], above[:n-start]
	switch filter {
	case 0:
		copy(dst, row)
	case 1:
		copy(dst, row[:start])
		subtract(dst[start:], row[start:], left)
	case 2:
		subtract(dst, row, above)
	case 3:
		for i := range start {
			dst[i] = row[i] - above[i]/2
		}
		dst, row, above := dst[start:], row[start:], above[start:]
		for i := range row {
			dst[i] = row[i] - byte((int(left[i])+int(above[i]))/2)
		}
	case 4:
		subtract(dst[:start], row, above)
		dst, row, above := dst[start:], row[start:], above[start:]
		for i := range row {
			dst[i] = row[i] - paeth(int(left[i]), int(above[i]), int(corner[i]))
		}
	}
}

func subtract(dst, a, b []byte) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] - b[i]
	}
}

func paeth(left, above, corner int) byte {
	pa, pb := above-corner, left-corner
	pc := pa + pb
	pa, pb, pc = max(pa, -pa), max(pb, -pb), max(pc, -pc)
	if pa <= pb && pa <= pc {
		return byte(left)
	}
	if pb <= pc {
		return byte(above)
	}
	return byte(corner)
}

// sumOfDifferences rates a filtered row: the sum of its bytes as signed differences.
func sumOfDifferences(row []byte) int {
	sum := 0
	for _, b := range row {
		d := int(int8(b))
		sum += max(d, -d)
	}
	return sum
}

// adam7 holds the passes of an interlaced picture: first pixel and steps.
var adam7 = [7]struct{ x, y, dx, dy int }{
	{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2},
}

// putPass selects the pixels of one pass and writes them like a picture. A pass without pixels
// adds nothing to the file.
func (e *pngCoder) putPass(deflate *zlib.Writer, w, h int, rows []byte, p struct{ x, y, dx, dy int }, style pngStyle) {
	pw, ph := ceilDiv(w-p.x, p.dx), ceilDiv(h-p.y, p.dy)
	if w <= p.x || h <= p.y {
		return
	}
	bits := pngChannels[style.color] * style.depth
	stride := (w*bits + 7) / 8
	e.pass = e.pass[:0]
	for y := range ph {
		row := rows[(p.y+y*p.dy)*stride:]
		start := len(e.pass)
		e.pass = append(e.pass, make([]byte, (pw*bits+7)/8)...)
		for x := range pw {
			copyBits(e.pass[start:], x*bits, row, (p.x+x*p.dx)*bits, bits)
		}
	}
	e.putRows(deflate, pw, ph, e.pass, style)
}

// copyBits copies a pixel of n bits, whole bytes or part of one; dst must be 0.
func copyBits(dst []byte, to int, src []byte, from, n int) {
	if n >= 8 {
		copy(dst[to/8:to/8+n/8], src[from/8:])
		return
	}
	v := src[from/8] >> (8 - n - from%8) & (1<<n - 1)
	dst[to/8] |= v << (8 - n - to%8)
}
