//go:build cgo

package decode

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// A forger writes legal progressive JPEGs symbol by symbol, with what few encoders or none use: any
// bands and bits per scan, scans of two components, a restart interval and random codes of up to 16
// bits for each scan, and runs of blocks that go beyond a restart or the end.
type forger struct {
	*rand.Rand
	out             []byte
	last, bits      int // an incomplete byte, and how many bits it has
	w, h, comps     int
	across, down    int    // in MCUs
	fh, fv          [3]int // sampling factors
	interval, scans int
	missing         [3][64]int // bits yet to come; -1: all
	blocks          [3][][64]int
}

func newForger(seed uint64) *forger {
	f := &forger{Rand: rand.New(rand.NewPCG(seed, 1)), comps: 1, fh: [3]int{1, 1, 1}, fv: [3]int{1, 1, 1}}
	f.w, f.h = 20+f.IntN(60), 1+f.IntN(40)
	if f.IntN(4) > 0 {
		f.comps, f.fh[0], f.fv[0] = 3, 1+f.IntN(2), 1+f.IntN(2)
	}
	f.across, f.down = (f.w+8*f.fh[0]-1)/(8*f.fh[0]), (f.h+8*f.fv[0]-1)/(8*f.fv[0])
	f.out = append([]byte("\xff\xd8\xff\xdb\x00\x43\x00"), bytes.Repeat([]byte{1}, 64)...)
	frame := []byte{8, 0, byte(f.h), 0, byte(f.w), byte(f.comps)}
	for c := range f.comps {
		frame = append(frame, byte(c), byte(f.fh[c]<<4|f.fv[c]), 0)
		f.blocks[c] = make([][64]int, f.across*f.fh[c]*f.down*f.fv[c])
		for k := range 64 {
			f.missing[c][k] = -1
		}
	}
	f.segment(markSOF2, frame)
	return f
}

func (f *forger) segment(marker byte, body []byte) {
	f.out = append(append(f.out, 0xff, marker, byte((len(body)+2)>>8), byte(len(body)+2)), body...)
}

// put writes the last n bits of v.
func (f *forger) put(v, n int) {
	for n--; n >= 0; n-- {
		f.last, f.bits = f.last<<1|v>>n&1, f.bits+1
		if f.bits == 8 {
			if f.out = append(f.out, byte(f.last)); byte(f.last) == 0xff {
				f.out = append(f.out, 0)
			}
			f.last, f.bits = 0, 0
		}
	}
}

func (f *forger) pad() {
	for f.bits > 0 {
		f.put(f.IntN(2), 1)
	}
}

// codes defines random codes for symbols, and returns the length and bits of each.
func (f *forger) codes(table byte, symbols []byte) map[byte][2]int {
	lengths, deep := []int{0}, f.IntN(2) == 0 // of the leaves of a tree, one of which is not used
	for len(lengths) <= len(symbols) {
		i := f.IntN(len(lengths))
		if deep {
			i = len(lengths) - 1
		}
		if lengths[i] == 16 {
			i = slices.Index(lengths, slices.Min(lengths))
		}
		lengths[i]++
		lengths = append(lengths, lengths[i])
	}
	slices.Sort(lengths)
	f.Shuffle(len(symbols), func(i, k int) { symbols[i], symbols[k] = symbols[k], symbols[i] })
	definition, all, code := make([]byte, 17), map[byte][2]int{}, 0
	definition[0] = table
	for i, s := range symbols {
		definition[lengths[i]]++
		all[s] = [2]int{lengths[i], code}
		code = (code + 1) << (lengths[i+1] - lengths[i])
	}
	f.segment(markDHT, append(definition, symbols...))
	return all
}

// scan writes a scan: its header, what block writes for each block, and restart markers.
func (f *forger) scan(of []int, first, last, high, low int, restart func(), block func(i int, b *[64]int)) {
	header := []byte{byte(len(of))}
	for _, c := range of {
		header = append(header, byte(c), byte(c<<4))
	}
	f.segment(markSOS, append(header, byte(first), byte(last), byte(high<<4|low)))
	f.scans++
	c := of[0]
	across, down, h, v := f.across, f.down, f.fh, f.fv
	if len(of) == 1 {
		across, down = ((f.w*h[c]+h[0]-1)/h[0]+7)/8, ((f.h*v[c]+v[0]-1)/v[0]+7)/8
		h, v = [3]int{1, 1, 1}, [3]int{1, 1, 1}
	}
	restart()
	for m := range across * down {
		if f.interval > 0 && m > 0 && m%f.interval == 0 {
			f.pad()
			f.out = append(f.out, 0xff, markRST0+byte((m/f.interval-1)&7))
			restart()
		}
		for i, c := range of {
			for n := range h[c] * v[c] {
				y, x := m/across*v[c]+n/h[c], m%across*h[c]+n%h[c]
				block(i, &f.blocks[c][y*f.across*f.fh[c]+x])
			}
		}
	}
	f.pad()
	for _, c := range of {
		for k := first; k <= last; k++ {
			f.missing[c][k] = low
		}
	}
}

// signed is the value of size bits.
func signed(bits, size int) int {
	if size == 0 || bits>>(size-1) == 1 {
		return bits
	}
	return bits - 1<<size + 1
}

func (f *forger) dc(of []int, high, low int) {
	var codes [3]map[byte][2]int
	for _, c := range of {
		if high == 0 {
			codes[c] = f.codes(byte(c), []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
		}
	}
	var predicted [3]int
	f.scan(of, 0, 0, high, low, func() { predicted = [3]int{} }, func(i int, b *[64]int) {
		if high > 0 {
			f.put(f.IntN(2), 1)
			return
		}
		size := f.IntN(12 - low)
		bits := f.IntN(1 << size)
		if v := (predicted[i] + signed(bits, size)) << low; v > 3000 || v < -3000 {
			size, bits = 0, 0
		}
		predicted[i] += signed(bits, size)
		code := codes[of[i]][byte(size)]
		f.put(code[1], code[0])
		f.put(bits, size)
	})
}

// ac writes a band of component c.
func (f *forger) ac(c, first, last, high, low int) {
	symbols, density := []byte{0, 0xf0}, f.Float64()
	for s := range 0xf0 {
		size, run := s&15, s>>4
		ends := size == 0 && run > 0 && f.IntN(8) == 0
		if ends || size > 0 && size <= 9-low && run <= last-first && (high == 0 || size == 1) && f.Float64() < density {
			symbols = append(symbols, byte(s))
		}
	}
	codes, run, ending := f.codes(0x10, symbols), 0, f.IntN(9)
	f.scan([]int{c}, first, last, high, low, func() { run = 0 }, func(_ int, b *[64]int) {
		k := first
		for run == 0 && k <= last {
			zeros := 0
			for _, v := range b[k : last+1] {
				if v == 0 {
					zeros++
				}
			}
			s := symbols[f.IntN(len(symbols))]
			if s != 0xf0 && s&15 == 0 && f.IntN(9) < ending || s>>4 >= byte(min(zeros, 16)) && (s == 0xf0 || s&15 > 0) {
				s = 0
			}
			size, skip := int(s&15), int(s>>4)
			f.put(codes[s][1], codes[s][0])
			if size == 0 && skip < 15 {
				more := f.IntN(1 << skip)
				f.put(more, skip)
				run = 1<<skip + more
				break
			}
			bits := f.IntN(1 << size)
			f.put(bits, size)
			for ; b[k] != 0 || skip > 0; k++ {
				if b[k] != 0 {
					f.put(f.IntN(2), 1)
				} else {
					skip--
				}
			}
			if size > 0 {
				b[k] = 1 // only which are zero matters
			}
			k++
		}
		if run > 0 {
			for run--; k <= last; k++ {
				if b[k] != 0 {
					f.put(f.IntN(2), 1)
				}
			}
		}
	})
}

// forge writes scans until nothing is missing.
func (f *forger) forge() []byte {
	for c := f.IntN(f.comps); ; c = f.IntN(f.comps) {
		var open []int // coefficients whose bits are missing
		for k, missing := range f.missing[c] {
			if missing != 0 && (k == 0 || f.missing[c][0] >= 0) {
				open = append(open, k)
			}
		}
		if len(open) == 0 {
			if f.missing == ([3][64]int{}) {
				return append(f.out, 0xff, markEOI)
			}
			continue
		}
		if f.IntN(4) == 0 {
			f.interval = f.IntN(9)
			f.segment(markDRI, []byte{0, byte(f.interval)})
		}
		first := open[f.IntN(len(open))]
		missing := f.missing[c][first]
		high, low := max(missing, 0), missing-1
		if missing < 0 {
			low = max(0, f.IntN(8)-4)
		}
		if first == 0 {
			var of []int
			for k := range f.comps {
				if f.missing[k][0] == missing && (k == c || f.IntN(4) > 0) {
					of = append(of, k)
				}
			}
			f.dc(of, high, low)
			continue
		}
		last := first
		for first > 1 && f.missing[c][first-1] == missing && f.IntN(16) > 0 {
			first--
		}
		for last < 63 && f.missing[c][last+1] == missing && f.IntN(32) > 0 {
			last++
		}
		f.ac(c, first, last, high, low)
	}
}

// TestBaselineForged: no kernel leaves a legal progressive file to libjpeg-turbo, whatever its
// scans are, or makes other pixels of it, or of one with an inverted bit.
func TestBaselineForged(t *testing.T) {
	files := uint64(400)
	if testing.Short() {
		files = 40
	}
	all, tried := newKernelSet(t), 0
	for seed := range files {
		f := newForger(seed)
		data := f.forge()
		h, err := ReadHeader(data, true)
		if err != nil {
			t.Fatal(err)
		}
		color := Color(f.IntN(2))
		all.same(t, fmt.Sprint("forged ", seed), data, h, color, Region{0, 0, h.Width, h.Height})
		if n := all.taken(); f.scans <= 64 && n.Baseline != int64(len(Kernels())-1) {
			t.Errorf("forged %d: %+v", seed, n)
		} else if n.Baseline > 0 {
			tried++
		}
		data[f.IntN(len(data))] ^= 1 << f.IntN(8)
		if h, err := ReadHeader(data, true); err == nil && h.Format == JPEG && h.pixels() < 1<<14 {
			all.same(t, fmt.Sprint("forged, damaged ", seed), data, h, color, anyRegion(f.Rand, h))
			all.taken()
		}
		if t.Failed() {
			return
		}
	}
	if t.Logf("%d of %d", tried, files); tried < int(files)/2 {
		t.Errorf("only %d of %d were accepted", tried, files)
	}
}
