package gen

import (
	"math/bits"
	"slices"
)

// huffCode is a JPEG Huffman table: in the file's form, and ready for coding.
type huffCode struct {
	perLength [16]uint8 // codes of 1 to 16 bits
	symbols   []uint8   // by length, then code
	code      [256]uint32
	length    [256]uint8
}

// newHuffCode computes the codes of a table.
func newHuffCode(perLength [16]uint8, symbols []uint8) huffCode {
	h := huffCode{perLength: perLength, symbols: symbols}
	code, at := uint32(0), 0
	for n, count := range perLength {
		for range count {
			h.code[symbols[at]], h.length[symbols[at]] = code, uint8(n+1)
			code++
			at++
		}
		code <<= 1
	}
	return h
}

// fittedCode makes the best table for the given symbol counts. An additional symbol, rarer than
// all others, takes the code of all ones, which the standard forbids.
func fittedCode(counts *[256]int) huffCode {
	var all [257]int
	for s, n := range counts {
		all[s] = 2 * n
	}
	all[256] = 1
	var lengths [257]uint8
	huffmanLengths(lengths[:], all[:], 16)
	var perLength [16]uint8
	var symbols []uint8
	for n := uint8(1); n <= 16; n++ {
		for s := range 256 {
			if lengths[s] == n {
				perLength[n-1]++
				symbols = append(symbols, uint8(s))
			}
		}
	}
	return newHuffCode(perLength, symbols)
}

// standardCodes are the tables of annex K: [luma, chroma][DC, AC].
func standardCodes() [2][2]huffCode {
	dc := []uint8{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	return [2][2]huffCode{
		{newHuffCode([16]uint8{0, 1, 5, 1, 1, 1, 1, 1, 1}, dc),
			newHuffCode([16]uint8{0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 0x7d}, lumaACSymbols[:])},
		{newHuffCode([16]uint8{0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1}, dc),
			newHuffCode([16]uint8{0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 0x77}, chromaACSymbols[:])},
	}
}

var lumaACSymbols = [162]uint8{
	0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07,
	0x22, 0x71, 0x14, 0x32, 0x81, 0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52, 0xd1, 0xf0,
	0x24, 0x33, 0x62, 0x72, 0x82, 0x09, 0x0a, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x25, 0x26, 0x27, 0x28,
	0x29, 0x2a, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49,
	0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69,
	0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89,
	0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7,
	0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5,
	0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe1, 0xe2,
	0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8,
	0xf9, 0xfa,
}

var chromaACSymbols = [162]uint8{
	0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07, 0x61, 0x71,
	0x13, 0x22, 0x32, 0x81, 0x08, 0x14, 0x42, 0x91, 0xa1, 0xb1, 0xc1, 0x09, 0x23, 0x33, 0x52, 0xf0,
	0x15, 0x62, 0x72, 0xd1, 0x0a, 0x16, 0x24, 0x34, 0xe1, 0x25, 0xf1, 0x17, 0x18, 0x19, 0x1a, 0x26,
	0x27, 0x28, 0x29, 0x2a, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48,
	0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68,
	0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87,
	0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5,
	0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3,
	0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda,
	0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8,
	0xf9, 0xfa,
}

// putHuffman writes one table; kind 0 is DC, 1 is AC.
func (e *jpegCoder) putHuffman(table, kind int) {
	h := &e.codes[table][kind]
	e.segment(markerDHT, slices.Concat([]byte{byte(kind<<4 | table)}, h.perLength[:], h.symbols)...)
}

// bitWriter appends bits, most significant first, to out, and stuffs a zero byte after each
// 0xFF.
type bitWriter struct {
	out []byte
	acc uint64
	n   uint // unwritten bits in acc, below 32 between calls
}

// put appends the low n bits of v, at most 32; the others must be 0.
func (w *bitWriter) put(v uint32, n uint) {
	w.acc = w.acc<<n | uint64(v)
	w.n += n
	if w.n >= 32 {
		w.n -= 32
		w.word(uint32(w.acc >> w.n))
	}
}

func (w *bitWriter) word(v uint32) {
	if (^v-0x01010101)&v&0x80808080 == 0 { // none of its bytes is 0xFF
		w.out = append(w.out, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
		return
	}
	for shift := 24; shift >= 0; shift -= 8 {
		w.stuffed(byte(v >> shift))
	}
}

func (w *bitWriter) stuffed(b byte) {
	w.out = append(w.out, b)
	if b == 0xFF {
		w.out = append(w.out, 0)
	}
}

// align fills the last byte with ones, as the standard requires.
func (w *bitWriter) align() {
	if fill := -w.n & 7; fill > 0 {
		w.acc, w.n = w.acc<<fill|(1<<fill-1), w.n+fill
	}
	for w.n > 0 {
		w.n -= 8
		w.stuffed(byte(w.acc >> w.n))
	}
	w.acc = 0
}

// symbol codes a symbol and extra bits, or only counts it.
func (e *jpegCoder) symbol(table, kind int, s uint8, extra uint32, n uint) {
	if e.counts != nil {
		e.counts[table][kind][s]++
		return
	}
	h := &e.codes[table][kind]
	e.put(h.code[s]<<n|extra, uint(h.length[s])+n)
}

// magnitude returns a value as JPEG codes it: the number of bits, and those bits.
func magnitude(v int32) (extra uint32, n uint) {
	sign := v >> 31
	n = uint(bits.Len32(uint32(v ^ sign - sign)))
	return uint32(v+sign) & (1<<n - 1), n
}

// baseline codes the whole picture in one scan.
func (e *jpegCoder) baseline(tables int) {
	e.codes = standardCodes()
	e.inScan = e.inScan[:0]
	for i := range e.comps {
		e.inScan = append(e.inScan, i)
	}
	if e.style.optimize {
		e.counts = new([2][2][256]int)
		e.scan(e.baselineBlock)
		for t := range tables {
			e.codes[t] = [2]huffCode{fittedCode(&e.counts[t][0]), fittedCode(&e.counts[t][1])}
		}
		e.counts = nil
	}
	for t := range tables {
		e.putHuffman(t, 0)
		e.putHuffman(t, 1)
	}
	e.putScanHeader(0, 63, 0, 0)
	e.scan(e.baselineBlock)
}

// scan visits the blocks of the components in e.inScan in the file's order: whole minimum coded
// units, or the blocks of a single component that hold samples.
func (e *jpegCoder) scan(visit func(c *jpegComponent, block int)) {
	e.restart()
	units := 0
	unit := func() {
		if e.style.restart > 0 && units == e.style.restart {
			e.putRestart()
			units = 0
		}
		units++
	}
	if len(e.inScan) == 1 {
		c := &e.comps[e.inScan[0]]
		for i := range c.bw * c.bh {
			unit()
			visit(c, i/c.bw*c.across+i%c.bw)
		}
	} else {
		for i := range e.across * e.down {
			unit()
			e.visitUnit(i%e.across, i/e.across, visit)
		}
	}
	e.endRun()
	if e.counts == nil {
		e.align()
	}
}

func (e *jpegCoder) visitUnit(x, y int, visit func(c *jpegComponent, block int)) {
	for _, k := range e.inScan {
		c := &e.comps[k]
		for v := range c.vs {
			for h := range c.hs {
				visit(c, (y*c.vs+v)*c.across+x*c.hs+h)
			}
		}
	}
}

// restart resets all predictions and runs.
func (e *jpegCoder) restart() {
	for i := range e.comps {
		e.comps[i].dcPredicts = 0
	}
	e.eobRun, e.pending, e.restartsBefore = 0, e.pending[:0], 0
}

func (e *jpegCoder) putRestart() {
	e.endRun()
	before := e.restartsBefore
	e.restart()
	e.restartsBefore = before + 1
	if e.counts == nil {
		e.align()
		e.marker(byte(markerRST0 + before&7))
	}
}

const (
	symbolEOB = 0x00
	symbolZRL = 0xF0 // sixteen zeros
)

func (e *jpegCoder) baselineBlock(c *jpegComponent, block int) {
	coef := &c.coef[block]
	dc := int(coef[0])
	extra, n := magnitude(int32(dc - c.dcPredicts))
	c.dcPredicts = dc
	e.symbol(c.table, 0, uint8(n), extra, n)
	last := 0
	for m := c.nonzero[block] &^ 1; m != 0; m &= m - 1 {
		k := bits.TrailingZeros64(m)
		run := k - last - 1
		last = k
		for ; run > 15; run -= 16 {
			e.symbol(c.table, 1, symbolZRL, 0, 0)
		}
		extra, n := magnitude(int32(coef[k&63]))
		e.symbol(c.table, 1, uint8(run)<<4|uint8(n), extra, n)
	}
	if last < 63 {
		e.symbol(c.table, 1, symbolEOB, 0, 0)
	}
}
