package layout

import (
	"encoding/binary"
	"hash/adler32"
	"hash/crc32"
)

// stored is the geometry of a PNG whose pixels are stored without compression: every row then has
// a fixed place in the file and can be drawn there. The zlib stream is cut into an IDAT chunk for
// its header, one for each row, which is a stored deflate block, and one for its checksum.
type stored struct{ pixelBytes, rows int } // at least one row of 1 to maxStored-1 bytes

const (
	pngSignature = "\x89PNG\r\n\x1a\n"
	chunkFrame   = 4 + 4 + 4                                            // length, type and checksum
	rowsAt       = len(pngSignature) + chunkFrame + 13 + chunkFrame + 2 // after IHDR and the zlib header
	blockHeader  = 5                                                    // of a stored block
	rowFrame     = chunkFrame + blockHeader + 1                         // the last byte is the row's filter
	pngEnd       = chunkFrame + 4 + chunkFrame                          // zlib's checksum, and IEND
	maxStored    = 65535
)

func (p stored) size() int64 {
	return int64(rowsAt) + int64(p.rows)*int64(rowFrame+p.pixelBytes) + pngEnd
}

// chunk returns the place of row y's chunk.
func (p stored) chunk(file []byte, y int) []byte {
	n := rowFrame + p.pixelBytes
	return file[rowsAt+y*n:][:n]
}

// row returns the place of row y's pixels.
func (p stored) row(file []byte, y int) []byte {
	return p.chunk(file, y)[8+blockHeader+1:][:p.pixelBytes]
}

// finish writes everything around the pixels, which must already be in place.
func (p stored) finish(file []byte, width, height, chans int) {
	color := byte(2)
	if chans == 1 {
		color = 0
	}
	ihdr := file[copy(file, pngSignature):]
	binary.BigEndian.PutUint32(ihdr[8:], uint32(width))
	binary.BigEndian.PutUint32(ihdr[12:], uint32(height))
	copy(ihdr[16:], []byte{8, color, 0, 0, 0})
	closeChunk(ihdr[:chunkFrame+13], "IHDR")
	zlib := file[rowsAt-chunkFrame-2 : rowsAt]
	copy(zlib[8:], []byte{0x78, 0x01})
	closeChunk(zlib, "IDAT")
	sum, n := adler32.New(), 1+p.pixelBytes
	for y := range p.rows {
		chunk := p.chunk(file, y)
		block := chunk[8:]
		block[0] = 0 // stored
		if y == p.rows-1 {
			block[0] = 1 // and the last
		}
		binary.LittleEndian.PutUint16(block[1:], uint16(n))
		binary.LittleEndian.PutUint16(block[3:], ^uint16(n))
		block[blockHeader] = 0 // no filter
		sum.Write(block[blockHeader:][:n])
		closeChunk(chunk, "IDAT")
	}
	end := file[len(file)-pngEnd:]
	binary.BigEndian.PutUint32(end[8:], sum.Sum32())
	closeChunk(end[:chunkFrame+4], "IDAT")
	closeChunk(end[chunkFrame+4:], "IEND")
}

// closeChunk writes the length, type and checksum around a chunk's content.
func closeChunk(chunk []byte, kind string) {
	n := len(chunk) - chunkFrame
	binary.BigEndian.PutUint32(chunk, uint32(n))
	copy(chunk[4:8], kind)
	binary.BigEndian.PutUint32(chunk[8+n:], crc32.ChecksumIEEE(chunk[4:8+n]))
}
