package decode

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// JPEG markers that can occur in a header.
const (
	markTEM   = 0x01
	markSOF0  = 0xc0 // baseline
	markSOF1  = 0xc1 // extended sequential
	markSOF2  = 0xc2 // progressive
	markDHT   = 0xc4
	markSOF9  = 0xc9 // extended sequential, arithmetic coding
	markSOF10 = 0xca // progressive, arithmetic coding
	markDAC   = 0xcc
	markSOF15 = 0xcf
	markRST0  = 0xd0
	markSOI   = 0xd8
	markEOI   = 0xd9
	markSOS   = 0xda
	markAPP1  = 0xe1
	markAPP14 = 0xee
)

// jpegMaxSide is libjpeg's limit.
const jpegMaxSide = 65500

// jpegFrame is the content of a JPEG's markers up to its first scan.
type jpegFrame struct {
	width, height int
	components    int
	ids           [4]byte
	h, v          [4]int // sampling factors
	progressive   bool
	multiScan     bool  // progressive, or components in separate scans
	arithmetic    bool  // arithmetic coding instead of Huffman
	bits          int64 // the first scan has at least this many
	scan          int   // where the data of the first scan starts
	adobe         bool  // has an Adobe marker, which decides what CMYK means
	transform     byte  // its value for the colours
	orientation   uint8
}

func jpegHeader(data []byte, complete bool) (Header, error) {
	f, err := readJPEGFrame(data, complete)
	if err != nil {
		return Header{}, err
	}
	const eoi = 2
	h := Header{
		Format: JPEG, Width: f.width, Height: f.height, Orientation: f.orientation,
		Scratch: jpegScratch(&f), least: int64(f.scan) + f.bits/8 + eoi,
	}
	if f.multiScan {
		h.scan = f.scan
	}
	return h, nil
}

// readJPEGFrame reads markers up to the first scan. Like libjpeg, it tolerates stray bytes
// between them.
func readJPEGFrame(data []byte, complete bool) (f jpegFrame, err error) {
	f.orientation = 1
	exif := false
	for p := 2; err == nil; {
		var marker byte
		var body []byte
		marker, body, p = nextSegment(data, p)
		switch {
		case p == badLength:
			return f, corrupt("a marker segment of impossible length")
		case p < 0:
			return f, endsEarly(complete)
		case marker == markSOI:
			return f, corrupt("a second start of image")
		case marker == markEOI:
			return f, corrupt("it has no image data")
		case marker == markSOS:
			f.scan = p
			return f, f.firstScan(body)
		case marker >= markSOF0 && marker <= markSOF15 && marker != markDHT && marker != markDAC:
			err = f.frame(marker, body)
		case marker == markAPP1 && !exif && hasPrefix(body, exifPrefix):
			exif = true
			f.orientation = exifOrientation(body[len(exifPrefix):])
		case marker == markAPP14 && len(body) >= 12 && hasPrefix(body, "Adobe"):
			f.adobe, f.transform = true, body[11]
		}
	}
	return f, err
}

// Where nextSegment finds no segment.
const (
	dataEnds = -1 - iota
	badLength
)

// nextSegment returns the first marker at or after p, except those that stand alone between
// others, with its parameters, and where they end.
func nextSegment(data []byte, p int) (marker byte, body []byte, end int) {
	for p+1 < len(data) {
		i := bytes.IndexByte(data[p:len(data)-1], 0xff)
		if i < 0 {
			break
		}
		p += i + 1
		marker = data[p]
		if marker == 0 || marker == 0xff {
			continue
		}
		p++
		switch {
		case marker == markTEM || marker >= markRST0 && marker < markSOI:
			continue
		case marker == markSOI || marker == markEOI:
			return marker, nil, p
		case p+2 > len(data):
			return 0, nil, dataEnds
		}
		end = p + int(binary.BigEndian.Uint16(data[p:]))
		switch {
		case end < p+2:
			return 0, nil, badLength
		case end > len(data):
			return 0, nil, dataEnds
		}
		return marker, data[p+2 : end], end
	}
	return 0, nil, dataEnds
}

func (f *jpegFrame) frame(marker byte, b []byte) error {
	if f.components != 0 {
		return corrupt("a second frame header")
	}
	switch marker {
	case markSOF0, markSOF1, markSOF2, markSOF9, markSOF10:
	case 0xc3, 0xc7, 0xcb, 0xcf:
		return unsupported("lossless JPEG")
	default:
		return unsupported("hierarchical JPEG")
	}
	f.progressive = marker == markSOF2 || marker == markSOF10
	f.arithmetic = marker == markSOF9 || marker == markSOF10
	f.multiScan = f.progressive
	if len(b) < 6 || len(b) != 6+3*int(b[5]) {
		return corrupt("a frame header of impossible length")
	}
	if b[0] != 8 {
		return unsupported("JPEG with %d bits a sample", b[0])
	}
	f.height, f.width = int(binary.BigEndian.Uint16(b[1:])), int(binary.BigEndian.Uint16(b[3:]))
	n := int(b[5])
	switch {
	case f.width == 0:
		return corrupt("its width is 0")
	case f.height == 0:
		return unsupported("JPEG that gives its height only after the image")
	case f.width > jpegMaxSide || f.height > jpegMaxSide:
		return unsupported("JPEG with a side of more than %d pixels", jpegMaxSide)
	case n != 1 && n != 3 && n != 4:
		return unsupported("JPEG with %d components", n)
	}
	for i := range n {
		c := b[6+3*i:]
		f.ids[i], f.h[i], f.v[i] = c[0], int(c[1]>>4), int(c[1]&15)
		if f.h[i] < 1 || f.h[i] > 4 || f.v[i] < 1 || f.v[i] > 4 {
			return corrupt("sampling factors of %dx%d", f.h[i], f.v[i])
		}
	}
	f.components = n
	return nil
}

// firstScan reads the first scan's header. How much must be held in memory depends on whether it
// is the only scan. It has a minimum size: for each block one code for the DC coefficient and,
// in a sequential image, one for the end of the others. Arithmetic coding has no minimum.
func (f *jpegFrame) firstScan(b []byte) error {
	if f.components == 0 {
		return corrupt("image data without a frame header")
	}
	if len(b) < 1 || b[0] < 1 || b[0] > 4 || len(b) != 4+2*int(b[0]) {
		return corrupt("a scan header of impossible length")
	}
	n := int(b[0])
	f.multiScan = f.multiScan || n < f.components
	spectral := b[1+2*n:] // first and last coefficient, then bit positions
	if f.arithmetic || f.progressive && (spectral[0] != 0 || spectral[2]>>4 != 0) {
		return nil
	}
	each := int64(2)
	if f.progressive {
		each = 1
	}
	for i := range f.components {
		for k := range n {
			if b[1+2*k] == f.ids[i] {
				f.bits += each * f.scanBlocks(i, n > 1)
				break
			}
		}
	}
	return nil
}

// maxSampling returns the largest factors of any component.
func (f *jpegFrame) maxSampling() (h, v int) { return slices.Max(f.h[:]), slices.Max(f.v[:]) }

// blocks returns the size of component i in 8x8 blocks, in whole MCUs.
func (f *jpegFrame) blocks(i int) (across, down int64) {
	mh, mv := f.maxSampling()
	across = int64((f.width+8*mh-1)/(8*mh)) * int64(f.h[i])
	down = int64((f.height+8*mv-1)/(8*mv)) * int64(f.v[i])
	return across, down
}

// scanBlocks is the number of blocks of component i in a scan: whole MCUs if the scan also has
// other components.
func (f *jpegFrame) scanBlocks(i int, interleaved bool) int64 {
	if interleaved {
		across, down := f.blocks(i)
		return across * down
	}
	mh, mv := f.maxSampling()
	across := (f.width*f.h[i] + 8*mh - 1) / (8 * mh)
	down := (f.height*f.v[i] + 8*mv - 1) / (8 * mv)
	return int64(across) * int64(down)
}

// A progressive file can request passes over the whole image in very few bytes. Encoders make
// about ten. Up to maxScans are allowed, but fewer for large images: beyond fewScans, scans
// times pixels must not exceed maxPasses.
const (
	maxScans  = 500
	fewScans  = 64
	maxPasses = fewScans * DefaultMaxPixels
)

// checkScans refuses a JPEG with an absurd number of scans before any is decoded.
func checkScans(data []byte, h Header) error {
	if h.scan == 0 {
		return nil
	}
	limit := max(fewScans, min(maxScans, maxPasses/h.pixels()))
	for p, n := h.scan, int64(1); n <= limit; {
		var marker byte
		if marker, _, p = nextSegment(data, p); p < 0 || marker == markEOI {
			return nil // the decoder reports this better
		}
		if marker == markSOS {
			n++
		}
	}
	return corrupt("more than %d scans", limit)
}
