package gen

import "encoding/binary"

// plane is one component of a picture, in memory that the maker owns.
type plane struct {
	pix    []byte
	w, h   int
	stride int
	hs, vs int // sampling factors: samples in a minimum coded unit across and down
}

// jpegStyle is everything about a JPEG file except its pixels.
type jpegStyle struct {
	quality     int // 1..100, the usual scale over the standard tables
	progressive bool
	optimize    bool // own Huffman tables instead of the standard ones; implied by progressive
	restart     int  // minimum coded units between restart markers; 0: none
	orientation int  // EXIF orientation; 0: no EXIF segment
	bigEndian   bool // byte order of the EXIF segment
	adobe       int  // colour transform of the Adobe segment plus one; 0: a JFIF segment instead
	stray       bool // meaningless bytes between segments, as some cameras write
}

// jpegComponent is a plane being coded: its quantised coefficients in zigzag order, block by
// block, padded to whole minimum coded units.
type jpegComponent struct {
	plane
	id, table  int // table 0: luma or the only one, 1: chroma
	across     int // blocks per row of coef
	bw, bh     int // blocks that hold samples
	coef       [][64]int16
	nonzero    []uint64 // bit k: coefficient k of the block is not 0
	dcPredicts int
}

// jpegCoder makes JPEG files, one after another, and keeps its memory between them.
// It is not safe for concurrent use.
type jpegCoder struct {
	bitWriter
	comps          []jpegComponent
	style          jpegStyle
	hmax, vmax     int
	across, down   int // minimum coded units
	codes          [2][2]huffCode
	counts         *[2][2][256]int // not nil while symbols are counted, not written
	eobRun         int
	eobTable       int
	pending        []byte // correction bits to be written at the end of a run of blocks
	inScan         []int
	restartsBefore int
}

const (
	markerSOF0 = 0xC0
	markerSOF2 = 0xC2
	markerDHT  = 0xC4
	markerRST0 = 0xD0
	markerSOI  = 0xD8
	markerEOI  = 0xD9
	markerSOS  = 0xDA
	markerDQT  = 0xDB
	markerDRI  = 0xDD
	markerAPP0 = 0xE0
	markerAPP1 = 0xE1
	markerAPPE = 0xEE
)

// encode appends the file to dst. The planes are 1 (gray), 3 (YCbCr, or RGB with an Adobe
// segment that says so) or 4 (CMYK, YCCK) components; w and h are the size of the picture.
func (e *jpegCoder) encode(dst []byte, w, h int, planes []plane, style jpegStyle) []byte {
	e.out, e.style = dst, style
	e.plan(w, h, planes)
	quant := [2][64]uint16{scaleQuant(&lumaQuant, style.quality), scaleQuant(&chromaQuant, style.quality)}
	for i := range e.comps {
		e.comps[i].transform(&quant[e.comps[i].table])
	}
	e.marker(markerSOI)
	e.putApplication()
	tables := 1
	if len(planes) > 1 && e.comps[1].table == 1 {
		tables = 2
	}
	e.putQuant(quant[:tables])
	e.putFrame(w, h)
	if style.restart > 0 {
		e.segment(markerDRI, byte(style.restart>>8), byte(style.restart))
	}
	if style.progressive {
		e.progressive()
	} else {
		e.baseline(tables)
	}
	e.marker(markerEOI)
	return e.out
}

// plan lays the components out in blocks and provides their memory.
func (e *jpegCoder) plan(w, h int, planes []plane) {
	e.hmax, e.vmax = 1, 1
	for _, p := range planes {
		e.hmax, e.vmax = max(e.hmax, p.hs), max(e.vmax, p.vs)
	}
	e.across, e.down = ceilDiv(w, 8*e.hmax), ceilDiv(h, 8*e.vmax)
	for len(e.comps) < len(planes) {
		e.comps = append(e.comps, jpegComponent{})
	}
	e.comps = e.comps[:len(planes)]
	for i, p := range planes {
		c := &e.comps[i]
		c.plane, c.id, c.table = p, i+1, 0
		if len(planes) == 3 && e.style.adobe != 1 || len(planes) == 4 && e.style.adobe == 3 && i < 3 {
			c.table = min(i, 1)
		}
		c.bw, c.bh = ceilDiv(p.w, 8), ceilDiv(p.h, 8)
		c.across = e.across * p.hs
		blocks := c.across * e.down * p.vs
		if cap(c.coef) < blocks {
			c.coef, c.nonzero = make([][64]int16, blocks), make([]uint64, blocks)
		}
		c.coef, c.nonzero = c.coef[:blocks], c.nonzero[:blocks]
	}
}

// transform computes all coefficients of a component.
func (c *jpegComponent) transform(quant *[64]uint16) {
	recip := reciprocals(quant)
	var block [64]int32
	i := 0
	for by := range len(c.coef) / c.across {
		for bx := range c.across {
			c.load(&block, bx, by)
			forwardDCT(&block)
			c.nonzero[i] = quantize(&c.coef[i], &block, &recip)
			i++
		}
	}
}

// load copies one block of samples, and repeats the last column and row beyond the edge.
func (c *jpegComponent) load(block *[64]int32, bx, by int) {
	x, y := 8*bx, 8*by
	for j := range 8 {
		row := c.pix[min(y+j, c.h-1)*c.stride:]
		out := block[8*j : 8*j+8 : 8*j+8]
		if x+8 <= c.w {
			in := row[x : x+8 : x+8]
			for i := range 8 {
				out[i] = (int32(in[i]) - 128) << dctPrescale
			}
			continue
		}
		for i := range 8 {
			out[i] = (int32(row[min(x+i, c.w-1)]) - 128) << dctPrescale
		}
	}
}

// marker and segment write what lies between the scans.
func (e *jpegCoder) marker(kind byte) { e.out = append(e.out, 0xFF, kind) }

func (e *jpegCoder) segment(kind byte, content ...byte) {
	if e.style.stray && kind != markerAPP0 { // many readers detect the format from the first three bytes
		e.out = append(e.out, 0x00, 0x55, 0xAA)
	}
	e.marker(kind)
	e.out = binary.BigEndian.AppendUint16(e.out, uint16(2+len(content)))
	e.out = append(e.out, content...)
}

func (e *jpegCoder) putApplication() {
	if e.style.adobe > 0 {
		e.segment(markerAPPE, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, byte(e.style.adobe-1))
	} else if e.style.orientation == 0 {
		e.segment(markerAPP0, 'J', 'F', 'I', 'F', 0, 1, 1, 0, 0, 1, 0, 1, 0, 0)
	}
	if e.style.orientation > 0 {
		e.segment(markerAPP1, exif(e.style.orientation, e.style.bigEndian)...)
	}
}

// exif is the content of an APP1 segment that has only the orientation.
func exif(orientation int, bigEndian bool) []byte {
	var order interface {
		binary.ByteOrder
		binary.AppendByteOrder
	} = binary.LittleEndian
	b := []byte("Exif\x00\x00II")
	if bigEndian {
		order, b = binary.BigEndian, []byte("Exif\x00\x00MM")
	}
	b = order.AppendUint16(b, 42)
	b = order.AppendUint32(b, 8)      // the directory follows immediately
	b = order.AppendUint16(b, 1)      // one entry:
	b = order.AppendUint16(b, 0x0112) // Orientation,
	b = order.AppendUint16(b, 3)      // SHORT,
	b = order.AppendUint32(b, 1)      // one value
	b = order.AppendUint16(b, uint16(orientation))
	b = order.AppendUint16(b, 0)
	return order.AppendUint32(b, 0) // no further directory
}

func (e *jpegCoder) putQuant(tables [][64]uint16) {
	for t := range tables {
		content := []byte{byte(t)}
		for _, k := range zigzag {
			content = append(content, byte(tables[t][k]))
		}
		e.segment(markerDQT, content...)
	}
}

func (e *jpegCoder) putFrame(w, h int) {
	kind := byte(markerSOF0)
	if e.style.progressive {
		kind = markerSOF2
	}
	content := []byte{8, byte(h >> 8), byte(h), byte(w >> 8), byte(w), byte(len(e.comps))}
	for _, c := range e.comps {
		content = append(content, byte(c.id), byte(c.hs<<4|c.vs), byte(c.table))
	}
	e.segment(kind, content...)
}

// putScanHeader opens a scan of the components in e.inScan.
func (e *jpegCoder) putScanHeader(from, to, high, low int) {
	content := []byte{byte(len(e.inScan))}
	for _, i := range e.inScan {
		t := byte(e.comps[i].table)
		content = append(content, byte(e.comps[i].id), t<<4|t)
	}
	e.segment(markerSOS, append(content, byte(from), byte(to), byte(high<<4|low))...)
}
