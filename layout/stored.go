package layout

import (
	"encoding/binary"
	"hash/adler32"
	"hash/crc32"
)

// stored is the geometry of a PNG whose pixels are stored without compression: every scanline
// then has a fixed place in the file and can be drawn there. Each IDAT chunk holds one stored
// deflate block with as many whole rows as its 16-bit length allows, so that rows are
// contiguous.
type stored struct {
	rowBytes int // including the filter byte; at most maxStored
	rows     int
	perBlock int // rows per block
}

const (
	pngSignature = "\x89PNG\r\n\x1a\n"
	pngStart     = len(pngSignature) + chunkFrame + 13 // signature and IHDR
	chunkFrame   = 4 + 4 + 4                           // length, type and checksum
	zlibHeader   = 2
	blockHeader  = 5
	zlibTrailer  = 4
	maxStored    = 65535
)

// newStored plans a picture of at least one row of 1 to maxStored-1 bytes.
func newStored(pixelBytes, rows int) stored {
	p := stored{rowBytes: 1 + pixelBytes, rows: rows}
	p.perBlock = max(1, maxStored/p.rowBytes)
	return p
}

func (p stored) blocks() int { return ceilDiv(p.rows, p.perBlock) }

func (p stored) size() int64 {
	return int64(pngStart) + int64(p.blocks())*(chunkFrame+blockHeader) +
		int64(p.rows)*int64(p.rowBytes) + zlibHeader + zlibTrailer + chunkFrame
}

// chunkAt is where the chunk of block b starts in the file.
func (p stored) chunkAt(b int) int {
	at := pngStart + b*(chunkFrame+blockHeader+p.perBlock*p.rowBytes)
	if b > 0 {
		at += zlibHeader
	}
	return at
}

// dataAt is where the rows of block b start in the file.
func (p stored) dataAt(b int) int {
	at := p.chunkAt(b) + 8 + blockHeader
	if b == 0 {
		at += zlibHeader
	}
	return at
}

// row returns the place of row y's pixels, without the filter byte.
func (p stored) row(file []byte, y int) []byte {
	at := p.dataAt(y/p.perBlock) + y%p.perBlock*p.rowBytes
	return file[at+1 : at+p.rowBytes]
}

// finish writes everything around the pixels, which must already be in place.
func (p stored) finish(file []byte, width, height, chans int) {
	p.putStart(file, width, height, chans)
	sum := adler32.New()
	last := p.blocks() - 1
	for b := range p.blocks() {
		chunk, from := file[p.chunkAt(b):], p.dataAt(b)
		n := min(p.perBlock, p.rows-b*p.perBlock) * p.rowBytes
		data := file[from : from+n]
		for at := 0; at < n; at += p.rowBytes {
			data[at] = 0 // filter: none
		}
		sum.Write(data)
		length := from - p.chunkAt(b) - 8 + n
		if b == 0 {
			chunk[8], chunk[9] = 0x78, 0x01
		}
		putBlockHeader(file[from-blockHeader:], n, b == last)
		if b == last {
			binary.BigEndian.PutUint32(chunk[8+length:], sum.Sum32())
			length += zlibTrailer
		}
		closeChunk(chunk, "IDAT", length)
	}
	closeChunk(file[len(file)-chunkFrame:], "IEND", 0)
}

func (p stored) putStart(file []byte, width, height, chans int) {
	copy(file, pngSignature)
	chunk := file[len(pngSignature):]
	binary.BigEndian.PutUint32(chunk[8:], uint32(width))
	binary.BigEndian.PutUint32(chunk[12:], uint32(height))
	color := byte(2)
	if chans == 1 {
		color = 0
	}
	copy(chunk[16:], []byte{8, color, 0, 0, 0})
	closeChunk(chunk, "IHDR", 13)
}

func putBlockHeader(dst []byte, n int, last bool) {
	dst[0] = 0
	if last {
		dst[0] = 1
	}
	binary.LittleEndian.PutUint16(dst[1:], uint16(n))
	binary.LittleEndian.PutUint16(dst[3:], ^uint16(n))
}

// closeChunk writes the length, type and checksum around n bytes of content.
func closeChunk(chunk []byte, kind string, n int) {
	binary.BigEndian.PutUint32(chunk, uint32(n))
	copy(chunk[4:8], kind)
	binary.BigEndian.PutUint32(chunk[8+n:], crc32.ChecksumIEEE(chunk[4:8+n]))
}
