//go:build cgo

package gpu

import (
	"bytes"
	"math/rand/v2"
	"slices"
)

// samplings are all that the kernels decode: the factors of luma, and of chroma, which gray images
// lack.
var samplings = [][4]int{
	{1, 1, 0, 0}, {1, 1, 1, 1}, {2, 1, 1, 1}, {2, 2, 1, 1}, {1, 2, 1, 1}, {4, 1, 1, 1},
	{2, 1, 2, 1}, {1, 2, 1, 2}, {2, 2, 2, 1}, {2, 2, 1, 2}, {4, 1, 2, 1},
}

// A forger writes legal baseline JPEGs, code by code, of random coefficients: with any codes,
// tables and restarts, and faster than an encoder.
type forger struct {
	*rand.Rand
	out        []byte
	last, bits int // an incomplete byte, and how many bits it has
}

// A code is its length and its bits.
type code struct{ length, bits int }

// forge returns a JPEG of up to most x most pixels.
func forge(r *rand.Rand, sampling [4]int, orientation, most int) []byte {
	f := &forger{Rand: r, out: []byte{0xff, 0xd8}}
	w, h := min(5, most)+r.IntN(max(most-4, 1)), 1+r.IntN(most) // narrower chroma would not be filtered
	if orientation > 1 || r.IntN(2) == 0 {
		f.segment(0xe1, append([]byte("Exif\x00\x00II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00"), byte(orientation), 0, 0, 0, 0, 0, 0, 0))
	}
	factors := [][2]int{{sampling[0], sampling[1]}}
	ids := []byte{1, 2, 3}
	if sampling[2] > 0 {
		factors = append(factors, [2]int{sampling[2], sampling[3]}, [2]int{sampling[2], sampling[3]})
		if r.IntN(8) == 0 && sampling[0] == sampling[2] && sampling[1] == sampling[3] {
			ids = []byte("RGB")
		}
	}
	size := 1 + r.IntN(10) // bits of coefficients, at most, so that none is beyond what a sample can be
	most = f.quantization(8191 >> size)
	frame, scan := []byte{8, 0, byte(h), 0, byte(w), byte(len(factors))}, []byte{byte(len(factors))}
	for i, c := range factors {
		frame = append(frame, ids[i], byte(c[0]<<4|c[1]), 0)
		scan = append(scan, ids[i], byte(min(i, 1)*0x11))
	}
	f.segment(0xc0+byte(r.IntN(2)), frame)
	var dc, ac [2][256]code
	for i := range 2 {
		dc[i] = f.codes(byte(i), []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})
		ac[i] = f.codes(byte(0x10|i), symbols(r, size))
	}
	interval := max(r.IntN(16)-7, 0)
	f.segment(0xdd, []byte{0, byte(interval)})
	f.segment(0xda, append(scan, 0, 63, 0))
	mcus := ((w-1)/(8*sampling[0]) + 1) * ((h-1)/(8*sampling[1]) + 1)
	ends := 1 + r.IntN(20)
	var predicted [3]int
	for m := range mcus {
		if interval > 0 && m > 0 && m%interval == 0 {
			f.pad()
			f.out, predicted = append(f.out, 0xff, 0xd0+byte((m/interval-1)&7)), [3]int{}
		}
		for i, c := range factors {
			for range c[0] * c[1] {
				f.first(&dc[min(i, 1)], &predicted[i], most)
				f.others(&ac[min(i, 1)], size, ends)
			}
		}
	}
	f.pad()
	return append(f.out, 0xff, 0xd9)
}

// A flat is a square image of one color, each of whose blocks is the same 32 bits, or if short, the
// same 3.
type flat struct {
	side                   int
	short, restarts, peaks bool // peaks: the first three values of luma are 32767, 65534 and 65536
}

func (c flat) forge() []byte {
	f, across := &forger{Rand: rand.New(rand.NewPCG(0, 0)), out: []byte{0xff, 0xd8}}, (c.side+7)/8
	f.quantization(1)
	f.segment(0xc0, []byte{8, byte(c.side >> 8), byte(c.side), byte(c.side >> 8), byte(c.side), 3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0})
	dc, ac, bits, length := 15, 15, 0xfffefffe, 32
	if c.short {
		dc, ac, bits, length = 0, 1, 0b010, 3
	}
	for class, zero := range []int{dc, ac} { // one code of every length; which of them is that of 0
		lengths, symbols := bytes.Repeat([]byte{1}, 16), []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
		f.segment(0xc4, slices.Concat([]byte{byte(class << 4)}, lengths, slices.Insert(symbols, zero, 0)))
	}
	if c.restarts {
		f.segment(0xdd, []byte{0, byte(across)})
	}
	f.segment(0xda, []byte{3, 1, 0, 2, 0, 3, 0, 0, 63, 0})
	for block := range 3 * across * across {
		if row := block / 3 / across; c.restarts && row > 0 && block%(3*across) == 0 {
			f.pad()
			f.out = append(f.out, 0xff, 0xd0+byte((row-1)&7))
		}
		if c.peaks && block%3 == 0 && block < 9 {
			size, value := []int{15, 15, 2}[block/3], []int{32767, 32767, 2}[block/3]
			f.put(1<<size-2, size)
			f.put(value, size)
			f.put(0xfffe, 16)
		} else {
			f.put(bits, length)
		}
	}
	f.pad()
	return append(f.out, 0xff, 0xd9)
}

func (f *forger) segment(marker byte, body []byte) {
	f.out = append(append(f.out, 0xff, marker, byte((len(body)+2)>>8), byte(len(body)+2)), body...)
}

// quantization writes a table of values up to most, and returns the largest coefficient for the
// first.
func (f *forger) quantization(most int) int {
	table := make([]byte, 1, 129)
	first := 1 + f.IntN(min(most, 255))
	if f.IntN(4) > 0 {
		for range 64 {
			table = append(table, byte(1+f.IntN(min(most, 255))))
		}
		table[1] = byte(first)
	} else {
		table[0] = 0x10
		for range 64 {
			v := 1 + f.IntN(most)
			table = append(table, byte(v>>8), byte(v))
		}
		table[1], table[2] = 0, byte(first)
	}
	f.segment(0xdb, table)
	return min(8191/first, 2047)
}

// symbols are some of those of AC coefficients, with the end of a block and the longest run among
// them.
func symbols(r *rand.Rand, size int) []byte {
	all, few := []byte{0, 0xf0}, 1+r.IntN(4)
	for run := range byte(16) {
		for n := range byte(size) {
			if run == 0 || r.IntN(few) == 0 {
				all = append(all, run<<4|(n+1))
			}
		}
	}
	return all
}

// codes defines random codes for symbols.
func (f *forger) codes(table byte, symbols []byte) (all [256]code) {
	lengths, deep := []int{0}, f.IntN(2) == 0 // of a tree's leaves; the last one, all ones, is not a code
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
	definition, next := make([]byte, 17), 0
	definition[0] = table
	for i, s := range symbols {
		definition[lengths[i]]++
		all[s] = code{lengths[i], next}
		next = (next + 1) << (lengths[i+1] - lengths[i])
	}
	f.segment(0xc4, append(definition, symbols...))
	return all
}

// first writes a block's first coefficient.
func (f *forger) first(codes *[256]code, predicted *int, most int) {
	size := f.IntN(12)
	bits := f.IntN(1 << size)
	difference := bits
	if size > 0 && bits>>(size-1) == 0 {
		difference = bits - 1<<size + 1
	}
	if v := *predicted + difference; v < -most || v > most {
		size, bits, difference = 0, 0, 0
	}
	*predicted += difference
	f.put(codes[size].bits, codes[size].length)
	f.put(bits, size)
}

// others writes the other ones, of which another follows with the probability 1-1/ends.
func (f *forger) others(codes *[256]code, size, ends int) {
	for k := 1; k < 64; {
		s, n := 0, 0
		if f.IntN(ends) > 0 {
			n = 1 + f.IntN(size)
			if s = f.IntN(3)<<4 | n; f.IntN(16) == 0 {
				s = f.IntN(16)<<4 | n
			}
			if f.IntN(32) == 0 {
				s, n = 0xf0, 0
			}
		}
		if codes[s].length == 0 || k+s>>4 > 63 {
			s, n = 0, 0
		}
		f.put(codes[s].bits, codes[s].length)
		f.put(f.IntN(1<<n), n)
		if s == 0 {
			return
		}
		k += s>>4 + 1
	}
}

// put writes the last n bits of v.
func (f *forger) put(v, n int) {
	for f.last, f.bits = f.last<<n|v&(1<<n-1), f.bits+n; f.bits >= 8; f.bits -= 8 {
		b := byte(f.last >> (f.bits - 8))
		if f.out = append(f.out, b); b == 0xff {
			f.out = append(f.out, 0)
		}
	}
	f.last &= 1<<f.bits - 1
}

func (f *forger) pad() {
	if f.bits > 0 {
		f.put(f.IntN(256), 8-f.bits)
	}
}
