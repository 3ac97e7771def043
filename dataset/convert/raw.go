package convert

import (
	"encoding/binary"
	"fmt"
	"math"
)

const bmpHeaderBytes = 14 + 40

// rawFile is a raw file under construction. Its pixels are decoded right behind the header, and
// converted to the file format in place.
type rawFile struct {
	format        Format
	height, width int
	header        []byte
	stride        int // bytes per row, including a BMP's padding
	data          []byte
}

func newRawFile(f Format, height, width int) rawFile {
	r := rawFile{format: f, height: height, width: width, stride: 3 * width}
	if f == BMP {
		r.stride = (r.stride + 3) &^ 3
	}
	r.header = r.makeHeader()
	return r
}

func (r *rawFile) makeHeader() []byte {
	if r.format == PPM {
		return pnmHeader('6', r.height, r.width)
	}
	return bmpHeader(r.height, r.width, r.stride)
}

func pnmHeader(kind byte, height, width int) []byte {
	return fmt.Appendf(nil, "P%c\n%d %d\n255\n", kind, width, height)
}

// bmpHeader describes 24 bits per pixel, uncompressed, bottom-up rows.
func bmpHeader(height, width, stride int) []byte {
	le := binary.LittleEndian
	b := make([]byte, bmpHeaderBytes)
	copy(b, "BM")
	le.PutUint32(b[2:], uint32(len(b)+stride*height))
	le.PutUint32(b[10:], uint32(len(b)))
	le.PutUint32(b[14:], 40)
	le.PutUint32(b[18:], uint32(width))
	le.PutUint32(b[22:], uint32(height))
	le.PutUint16(b[26:], 1)
	le.PutUint16(b[28:], 24)
	le.PutUint32(b[34:], uint32(stride*height))
	return b
}

// size is the file's size, as a PPM even if it becomes a PGM.
func (r *rawFile) size() int64 {
	return int64(len(r.header)) + int64(r.stride)*int64(r.height)
}

// fits says whether the format can hold that many bytes.
func (r *rawFile) fits() error {
	if r.format == BMP && r.size() > math.MaxUint32 {
		return fmt.Errorf("%d bytes are more than a BMP can hold", r.size())
	}
	return nil
}

// graySize is the file's size as a PGM.
func (r *rawFile) graySize() int64 {
	return int64(len(pnmHeader('5', r.height, r.width))) + int64(r.height)*int64(r.width)
}

// begin writes the header into memory, which must hold the whole file.
func (r *rawFile) begin(memory []byte) {
	r.data = memory[:r.size()]
	copy(r.data, r.header)
}

// pixels is where the rows go: top-down, RGB.
func (r *rawFile) pixels() []byte { return r.data[len(r.header):] }

// finish converts the pixels to the file format and returns the file.
func (r *rawFile) finish() (file []byte, ext string) {
	switch {
	case r.format == BMP:
		r.turnOver()
		return r.data, ".bmp"
	case isGray(r.pixels()):
		return r.thinned(), ".pgm"
	}
	return r.data, ".ppm"
}

// turnOver reverses the order of the rows, swaps RGB to BGR, and clears the padding.
func (r *rawFile) turnOver() {
	pixels := r.pixels()
	for top, bottom := 0, r.height-1; top <= bottom; top, bottom = top+1, bottom-1 {
		a := pixels[top*r.stride:][:r.stride]
		b := pixels[bottom*r.stride:][:r.stride]
		exchange(a[:3*r.width], b[:3*r.width])
		clear(a[3*r.width:])
		clear(b[3*r.width:])
	}
}

// exchange swaps two rows of equal length, which may be the same row, and reverses the order of
// their channels.
func exchange(a, b []byte) {
	for len(a) >= 3 && len(b) >= 3 {
		a[0], a[1], a[2], b[0], b[1], b[2] = b[2], b[1], b[0], a[2], a[1], a[0]
		a, b = a[3:], b[3:]
	}
}

func isGray(rgb []byte) bool {
	for ; len(rgb) >= 3; rgb = rgb[3:] {
		if rgb[0] != rgb[1] || rgb[1] != rgb[2] {
			return false
		}
	}
	return true
}

// thinned turns a gray PPM into a PGM, in place.
func (r *rawFile) thinned() []byte {
	pixels := r.pixels()
	n := copy(r.data, pnmHeader('5', r.height, r.width))
	gray := r.data[n:][:r.height*r.width] // both headers have the same length, so gray starts where the pixels do
	for i := range gray {
		gray[i] = pixels[3*i]
	}
	return r.data[:n+len(gray)]
}
