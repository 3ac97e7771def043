package convert

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

const (
	bmpHeaderBytes = 14 + 40
	maxBMP         = math.MaxUint32 // bytes
)

// A Raw is an image to be stored raw.
type Raw struct {
	format        Format
	height, width int
	rgb           []byte // top-down, without padding
	gray          bool
}

// Ext is the extension for its name: .bmp, .ppm or .pgm.
func (r *Raw) Ext() string {
	switch {
	case r.format == BMP:
		return ".bmp"
	case r.gray:
		return ".pgm"
	}
	return ".ppm"
}

// Size is the size of its file in bytes.
func (r *Raw) Size() int64 {
	return int64(len(r.header())) + int64(r.stride())*int64(r.height)
}

// stride is bytes per row of the file, including a BMP's padding.
func (r *Raw) stride() int {
	switch {
	case r.format == BMP:
		return (3*r.width + 3) &^ 3
	case r.gray:
		return r.width
	}
	return 3 * r.width
}

func (r *Raw) header() []byte {
	switch {
	case r.format == BMP:
		return r.bmpHeader()
	case r.gray:
		return fmt.Appendf(nil, "P5\n%d %d\n255\n", r.width, r.height)
	}
	return fmt.Appendf(nil, "P6\n%d %d\n255\n", r.width, r.height)
}

// bmpHeader describes 24 bits per pixel, uncompressed, bottom-up rows.
func (r *Raw) bmpHeader() []byte {
	le, pixels := binary.LittleEndian, uint32(r.stride()*r.height)
	b := make([]byte, bmpHeaderBytes)
	copy(b, "BM")
	le.PutUint32(b[2:], bmpHeaderBytes+pixels)
	le.PutUint32(b[10:], bmpHeaderBytes)
	le.PutUint32(b[14:], 40)
	le.PutUint32(b[18:], uint32(r.width))
	le.PutUint32(b[22:], uint32(r.height))
	le.PutUint16(b[26:], 1)
	le.PutUint16(b[28:], 24)
	le.PutUint32(b[34:], pixels)
	return b
}

// Write writes the file.
func (r *Raw) Write(to io.Writer) error {
	out := bufio.NewWriterSize(to, 256<<10)
	out.Write(r.header())
	row := make([]byte, r.stride())
	for y := range r.height {
		rgb := r.rgb[3*r.width*y:][:3*r.width]
		switch {
		case r.format == BMP:
			rgb = r.rgb[3*r.width*(r.height-1-y):][:3*r.width]
			for x := 0; x < len(rgb); x += 3 {
				row[x], row[x+1], row[x+2] = rgb[x+2], rgb[x+1], rgb[x]
			}
		case r.gray:
			for x := range row {
				row[x] = rgb[3*x]
			}
		default:
			row = rgb
		}
		out.Write(row)
	}
	return out.Flush()
}

func isGray(rgb []byte) bool {
	for ; len(rgb) >= 3; rgb = rgb[3:] {
		if rgb[0] != rgb[1] || rgb[1] != rgb[2] {
			return false
		}
	}
	return true
}

// FileBytes is the size of the raw file for a sample of h x w pixels, upright. If the file may
// become a PGM, it is an upper bound.
func (o Options) FileBytes(h, w int) int64 {
	h, w = o.transform().Size(h, w)
	r := Raw{format: o.Format, height: h, width: w}
	return r.Size()
}
