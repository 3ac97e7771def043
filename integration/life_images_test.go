package integration

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
)

// pngFile is a PNG whose pixels all have one value.
func pngFile(h, w int, value byte) []byte {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			img.SetRGBA(x, y, color.RGBA{value, value, value, 255})
		}
	}
	var out bytes.Buffer
	_ = png.Encode(&out, img) // writes to a buffer do not fail
	return out.Bytes()
}

// pngClaiming is a PNG of one pixel whose header claims more.
func pngClaiming(h, w int) []byte {
	data := pngFile(1, 1, 0)
	// After the signature: the length of IHDR, its name, 13 bytes, their checksum.
	header := data[8+4 : 8+4+4+13]
	binary.BigEndian.PutUint32(header[4:], uint32(w))
	binary.BigEndian.PutUint32(header[8:], uint32(h))
	binary.BigEndian.PutUint32(data[8+4+4+13:], crc32.ChecksumIEEE(header))
	return data
}

// jpegClaiming is a JPEG of a few pixels whose header claims more.
func jpegClaiming(h, w int) []byte {
	var out bytes.Buffer
	_ = jpeg.Encode(&out, image.NewRGBA(image.Rect(0, 0, 16, 16)), nil)
	data := out.Bytes()
	frame := bytes.Index(data, []byte{0xff, 0xc0})
	binary.BigEndian.PutUint16(data[frame+5:], uint16(h))
	binary.BigEndian.PutUint16(data[frame+7:], uint16(w))
	return data
}
