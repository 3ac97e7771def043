package decode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
)

// A packed JPEG that can be restored has, besides its body, a byte, 0 or 255, that pads incomplete
// bytes of entropy-coded data, and then the file without that data and without its restart markers.

// Limits of written JPEGs, which are those of our own decoder.
const (
	maxPackedScans = 64
	maxPackedShift = 13
)

func (p *packed) restoreJPEG() ([]byte, error) {
	if p.original != JPEG {
		return nil, corrupt("coefficients of %s", p.original)
	}
	return restoreJPEG(p.body, p.remainder, p.width, p.height)
}

// goCoefficients decodes a packed JPEG by restoring its file.
func goCoefficients(k *codecState, dst Image, p packed, v view) error {
	if len(p.remainder) == 0 {
		return unsupported("a JPEG that was packed for memory takes a build with cgo")
	}
	data, err := p.restoreJPEG()
	if err != nil {
		return err
	}
	said := Header{Format: JPEG, Width: p.width, Height: p.height, Orientation: p.orientation}
	if v.Header, err = check(data, said); err != nil {
		return err
	}
	return goJPEG(k, dst, data, v)
}

// jpegRemainder returns what restoreJPEG needs besides a JPEG's body, or ErrNoPackedForm if it
// would not restore the same bytes.
func jpegRemainder(data, body []byte, width, height int) ([][]byte, error) {
	frame := withoutScans(data)
	for _, fill := range []byte{0xff, 0} {
		rest := append([]byte{fill}, frame...)
		restored, err := restoreJPEG(body, rest, width, height)
		if err == nil && bytes.Equal(restored, data) {
			return [][]byte{rest}, nil
		}
	}
	return nil, fmt.Errorf("%w: that can be undone, of a JPEG with unusual codes", ErrNoPackedForm)
}

// withoutScans returns a JPEG without its entropy-coded data.
func withoutScans(data []byte) (out []byte) {
	out, at := append(out, data[:2]...), 2
	for at+4 <= len(data) && data[at] == 0xff && data[at+1] != markEOI {
		end := min(len(data), at+2+int(binary.BigEndian.Uint16(data[at+2:])))
		out = append(out, data[at:end]...)
		scan := data[at+1] == markSOS
		for at = end; scan && at < len(data); at++ {
			if at+1 < len(data) && data[at] == 0xff && data[at+1] != 0 && data[at+1]&^7 != markRST0 {
				break
			}
		}
	}
	return append(out, data[at:]...)
}

// restoreJPEG restores the file that was packed into a body and a remainder.
func restoreJPEG(body, remainder []byte, width, height int) ([]byte, error) {
	q, err := readTiers(body, width, height)
	if err != nil {
		return nil, err
	}
	if len(remainder) < 3 {
		return nil, endsEarly(true)
	}
	w := &jpegWriter{q: q, fill: remainder[0]}
	rest := remainder[1:]
	w.out = append(make([]byte, 0, len(body)+len(rest)), rest[:2]...)
	rest = rest[2:]
	for len(rest) >= 4 && rest[0] == 0xff && rest[1] != markEOI {
		size := 2 + int(binary.BigEndian.Uint16(rest[2:]))
		if size < 4 || size > len(rest) {
			return nil, corrupt("a segment of %d bytes", size)
		}
		w.out = append(w.out, rest[:size]...)
		if err := w.segment(rest[1], rest[4:size]); err != nil {
			return nil, err
		}
		rest = rest[size:]
	}
	return append(w.out, rest...), nil
}

// restoringNeeds is an upper bound for the Go heap that restoring a JPEG takes: coefficients, and
// bytes in all that is read and written, which grow in steps.
func restoringNeeds(h Header, bytes int64) int64 {
	return 128*tiersBlocks(h.Width, h.Height) + 4*bytes
}

type huffmanCode struct {
	code uint16
	size uint8 // bits; 0: there is none
}

// jpegWriter writes the entropy-coded data of a JPEG, as its marker segments specify.
type jpegWriter struct {
	q           *quantized
	out         []byte
	fill        byte
	progressive bool
	ids         []byte // of components, in the order of planes
	interval    int    // MCUs between restart markers; 0: none
	codes       [2][4]*[256]huffmanCode
	scans       int

	bits  uint64 // written, but not yet a whole byte
	count int
	lacks bool // a needed code is not defined

	run         int    // blocks without further coefficients, not yet written
	corrections []bool // of those blocks
}

func (w *jpegWriter) segment(marker byte, p []byte) error {
	switch marker {
	case markSOF0, markSOF1, markSOF2:
		return w.frame(marker, p)
	case markDHT:
		return w.tables(p)
	case 0xdd:
		if len(p) != 2 {
			return corrupt("an interval of %d bytes", len(p))
		}
		w.interval = int(binary.BigEndian.Uint16(p))
	case markSOS:
		return w.scan(p)
	}
	return nil
}

func (w *jpegWriter) frame(marker byte, p []byte) error {
	q := w.q
	w.progressive = marker == markSOF2
	if len(p) != 6+3*len(q.planes) || w.ids != nil || int(p[5]) != len(q.planes) ||
		int(binary.BigEndian.Uint16(p[1:])) != q.height || int(binary.BigEndian.Uint16(p[3:])) != q.width {
		return corrupt("another image than its coefficients")
	}
	for i := range q.planes {
		if c := p[6+3*i:]; int(c[1]) != q.planes[i].h<<4|q.planes[i].v {
			return corrupt("other sampling factors than those of its coefficients")
		}
		w.ids = append(w.ids, p[6+3*i])
	}
	return nil
}

func (w *jpegWriter) tables(p []byte) error {
	for len(p) > 0 {
		n := 0
		for i := 1; i <= 16 && i < len(p); i++ {
			n += int(p[i])
		}
		if len(p) < 17+n || n > 256 || p[0]>>4 > 1 || p[0]&15 > 3 {
			return corrupt("an invalid Huffman table")
		}
		codes, code, symbols := new([256]huffmanCode), 0, p[17:17+n]
		for size := 1; size <= 16; size++ {
			for range p[size] {
				if s := &codes[symbols[0]]; s.size == 0 {
					*s = huffmanCode{uint16(code), uint8(size)}
				}
				symbols = symbols[1:]
				code++
			}
			code <<= 1
		}
		w.codes[p[0]>>4][p[0]&15] = codes
		p = p[17+n:]
	}
	return nil
}

// A jpegScan is the content of a scan's header.
type jpegScan struct {
	of                     []int // planes
	dc, ac                 [3]*[256]huffmanCode
	first, last, high, low int
}

func (w *jpegWriter) scan(p []byte) error {
	if w.scans++; w.scans > maxPackedScans {
		return corrupt("more than %d scans", maxPackedScans)
	}
	if len(p) < 1 || len(p) != 4+2*int(p[0]) || p[0] < 1 || int(p[0]) > len(w.ids) {
		return corrupt("an invalid scan")
	}
	q := p[len(p)-3:]
	s := jpegScan{first: int(q[0]), last: int(q[1]), high: int(q[2] >> 4), low: int(q[2] & 15)}
	for i := range int(p[0]) {
		k, dc, ac := bytes.IndexByte(w.ids, p[1+2*i]), p[2+2*i]>>4, p[2+2*i]&15
		if k < 0 || dc > 3 || ac > 3 {
			return corrupt("an invalid scan")
		}
		s.of = append(s.of, k)
		s.dc[i], s.ac[i] = w.codes[0][dc], w.codes[1][ac]
	}
	whole := !w.progressive && s.first == 0 && s.last == 63 && s.high|s.low == 0
	ofDC := w.progressive && s.first == 0 && s.last == 0
	ofAC := w.progressive && s.first > 0 && s.first <= s.last && s.last < 64 && len(s.of) == 1
	if !whole && !ofDC && !ofAC || s.low > maxPackedShift {
		return corrupt("an invalid scan")
	}
	for i := range s.of {
		if s.first == 0 && s.high == 0 && s.dc[i] == nil || s.last > 0 && s.ac[i] == nil {
			return corrupt("a scan without its Huffman table")
		}
	}
	w.write(&s)
	if w.lacks {
		return corrupt("a Huffman table without a code that is needed")
	}
	return nil
}

// write writes all MCUs of a scan. A scan of one component has no blocks beyond its edges.
func (w *jpegWriter) write(s *jpegScan) {
	q := w.q
	across, down, alone := q.across, q.down, len(s.of) == 1
	if p := &q.planes[s.of[0]]; alone {
		across = ((q.width*p.h+q.hmax-1)/q.hmax + 7) / 8
		down = ((q.height*p.v+q.vmax-1)/q.vmax + 7) / 8
	}
	var before [3]int
	for mcu := range across * down {
		if w.interval > 0 && mcu > 0 && mcu%w.interval == 0 {
			w.pad(s)
			w.out = append(w.out, 0xff, markRST0|byte(mcu/w.interval-1)&7)
			before = [3]int{}
		}
		x, y := mcu%across, mcu/across
		for i, k := range s.of {
			p := &q.planes[k]
			if alone {
				w.block(s, i, p.at(x, y), &before[i])
				continue
			}
			for b := range p.h * p.v {
				w.block(s, i, p.at(x*p.h+b%p.h, y*p.v+b/p.h), &before[i])
			}
		}
	}
	w.pad(s)
}

func (w *jpegWriter) block(s *jpegScan, i int, b *block, before *int) {
	if s.first == 0 {
		dc := int(b[0]) >> s.low
		if s.high > 0 {
			w.put(uint32(dc)&1, 1)
		} else {
			w.value(s.dc[i], 0, dc-*before)
			*before = dc
		}
	}
	switch {
	case s.last == 0:
	case s.high > 0:
		w.refine(s, b)
	default:
		w.band(s, i, b)
	}
}

// band writes AC coefficients for the first time, or all of their bits.
func (w *jpegWriter) band(s *jpegScan, i int, b *block) {
	zeros := 0
	for k := max(1, s.first); k <= s.last; k++ {
		v := 0
		if b[k] != 0 {
			v = shifted(b[k], s.low)
		}
		if v == 0 {
			zeros++
			continue
		}
		if w.run > 0 {
			w.endRun(s)
		}
		for ; zeros > 15; zeros -= 16 {
			w.symbol(s.ac[i], 0xf0)
		}
		w.value(s.ac[i], zeros, v)
		zeros = 0
	}
	switch {
	case zeros == 0:
	case w.progressive:
		w.addToRun(s, nil)
	default:
		w.symbol(s.ac[i], 0)
	}
}

// refine writes one more bit of AC coefficients, following section G.1.2.3 of ITU-T T.81:
// coefficients that were 0 and become nonzero, and on the way to each, the corrections of all
// others.
func (w *jpegWriter) refine(s *jpegScan, b *block) {
	end := 0 // the last one that was 0
	for k := s.first; k <= s.last; k++ {
		if v := shifted(b[k], s.low); v == 1 || v == -1 {
			end = k
		}
	}
	zeros, corrections := 0, []bool(nil)
	for k := s.first; k <= s.last; k++ {
		v := shifted(b[k], s.low)
		if v == 0 {
			zeros++
			continue
		}
		for ; zeros > 15 && k <= end; zeros -= 16 {
			w.endRun(s)
			w.symbol(s.ac[0], 0xf0)
			w.correct(corrections)
			corrections = corrections[:0]
		}
		if v != 1 && v != -1 {
			corrections = append(corrections, v&1 == 1)
			continue
		}
		w.endRun(s)
		w.symbol(s.ac[0], zeros<<4|1)
		w.correct([]bool{v == 1})
		w.correct(corrections)
		zeros, corrections = 0, corrections[:0]
	}
	if zeros > 0 || len(corrections) > 0 {
		w.addToRun(s, corrections)
	}
}

// addToRun adds a block without further coefficients. The limits are libjpeg's: 15 bits for the
// number of blocks, and corrections in a buffer of 1000.
func (w *jpegWriter) addToRun(s *jpegScan, corrections []bool) {
	w.run++
	w.corrections = append(w.corrections, corrections...)
	if w.run == 1<<15-1 || len(w.corrections) > 1000-63 {
		w.endRun(s)
	}
}

// endRun writes the run of blocks without further coefficients, and their corrections.
func (w *jpegWriter) endRun(s *jpegScan) {
	if w.run == 0 {
		return
	}
	size := bits.Len(uint(w.run)) - 1
	w.symbol(s.ac[0], size<<4)
	w.put(uint32(w.run)&(1<<size-1), size)
	w.correct(w.corrections)
	w.run, w.corrections = 0, w.corrections[:0]
}

func (w *jpegWriter) correct(all []bool) {
	for _, one := range all {
		var bit uint32
		if one {
			bit = 1
		}
		w.put(bit, 1)
	}
}

// shifted divides by a power of 2, rounding towards 0.
func shifted(v int16, low int) int {
	if v < 0 {
		return -(-int(v) >> low)
	}
	return int(v) >> low
}

// value writes a code for the run of zeros and the value's size, and then the value.
func (w *jpegWriter) value(codes *[256]huffmanCode, zeros, v int) {
	size := bits.Len(uint(max(v, -v)))
	if size > 15 {
		w.lacks = true
		return
	}
	w.symbol(codes, zeros<<4|size)
	if v < 0 {
		v--
	}
	w.put(uint32(v)&(1<<size-1), size)
}

func (w *jpegWriter) symbol(codes *[256]huffmanCode, symbol int) {
	c := codes[symbol]
	w.lacks = w.lacks || c.size == 0
	w.put(uint32(c.code), int(c.size))
}

// put writes n bits, at most 16, the highest first.
func (w *jpegWriter) put(v uint32, n int) {
	w.bits = w.bits<<n | uint64(v)
	if w.count += n; w.count >= 32 {
		w.flush()
	}
}

// flush writes all whole bytes. A byte of ones is followed by one of zeros.
func (w *jpegWriter) flush() {
	for ; w.count >= 8; w.count -= 8 {
		b := byte(w.bits >> (w.count - 8))
		w.out = append(w.out, b)
		if b == 0xff {
			w.out = append(w.out, 0)
		}
	}
}

// pad ends the data before a marker.
func (w *jpegWriter) pad(s *jpegScan) {
	w.endRun(s)
	if n := -w.count & 7; n > 0 {
		w.put(uint32(w.fill)&(1<<n-1), n)
	}
	w.flush()
	w.bits = 0
}
