//go:build cgo

package gpu

import (
	"bytes"
	"math/rand/v2"
	"slices"

	"github.com/batchfs/batchfs/internal/testkit"
)

// samplings are all that the kernels decode: the factors of luma, and of chroma, which gray images
// lack.
var samplings = [][4]int{
	{1, 1, 0, 0}, {1, 1, 1, 1}, {2, 1, 1, 1}, {2, 2, 1, 1}, {1, 2, 1, 1}, {4, 1, 1, 1},
	{2, 1, 2, 1}, {1, 2, 1, 2}, {2, 2, 2, 1}, {2, 2, 1, 2}, {4, 1, 2, 1},
}

// A forger writes legal baseline JPEGs of random coefficients, with any codes, tables and restarts,
// and faster than an encoder.
type forger struct{ *testkit.Forger }

// forge returns a JPEG of up to most x most pixels.
func forge(r *rand.Rand, sampling [4]int, orientation, most int) []byte {
	f := forger{testkit.NewForger(r)}
	w, h := min(5, most)+r.IntN(max(most-4, 1)), 1+r.IntN(most) // narrower chroma would not be filtered
	if orientation > 1 || r.IntN(2) == 0 {
		f.Segment(0xe1, testkit.Orientation(orientation))
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
	f.Segment(0xc0+byte(r.IntN(2)), frame)
	var dc, ac [2][256]testkit.Code
	for i := range 2 {
		dc[i] = f.Codes(byte(i), []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})
		ac[i] = f.Codes(byte(0x10|i), symbols(r, size))
	}
	interval := max(r.IntN(16)-7, 0)
	f.Segment(0xdd, []byte{0, byte(interval)})
	f.Segment(0xda, append(scan, 0, 63, 0))
	mcus := ((w-1)/(8*sampling[0]) + 1) * ((h-1)/(8*sampling[1]) + 1)
	ends := 1 + r.IntN(20)
	var predicted [3]int
	for m := range mcus {
		if interval > 0 && m > 0 && m%interval == 0 {
			f.Restart(m/interval - 1)
			predicted = [3]int{}
		}
		for i, c := range factors {
			for range c[0] * c[1] {
				f.first(&dc[min(i, 1)], &predicted[i], most)
				f.others(&ac[min(i, 1)], size, ends)
			}
		}
	}
	return f.End()
}

// A flat is a square image of one color, each of whose blocks is the same 32 bits, or if short, the
// same 3.
type flat struct {
	side                   int
	short, restarts, peaks bool // peaks: the first three values of luma are 32767, 65534 and 65536
}

func (c flat) forge() []byte {
	f, across := forger{testkit.NewForger(rand.New(rand.NewPCG(0, 0)))}, (c.side+7)/8
	f.quantization(1)
	f.Segment(0xc0, []byte{8, byte(c.side >> 8), byte(c.side), byte(c.side >> 8), byte(c.side), 3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0})
	dc, ac, bits, length := 15, 15, 0xfffefffe, 32
	if c.short {
		dc, ac, bits, length = 0, 1, 0b010, 3
	}
	for class, zero := range []int{dc, ac} { // one code of every length; which of them is that of 0
		lengths, symbols := bytes.Repeat([]byte{1}, 16), []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
		f.Segment(0xc4, slices.Concat([]byte{byte(class << 4)}, lengths, slices.Insert(symbols, zero, 0)))
	}
	if c.restarts {
		f.Segment(0xdd, []byte{0, byte(across)})
	}
	f.Segment(0xda, []byte{3, 1, 0, 2, 0, 3, 0, 0, 63, 0})
	for block := range 3 * across * across {
		if row := block / 3 / across; c.restarts && row > 0 && block%(3*across) == 0 {
			f.Restart(row - 1)
		}
		if c.peaks && block%3 == 0 && block < 9 {
			size, value := []int{15, 15, 2}[block/3], []int{32767, 32767, 2}[block/3]
			f.Put(1<<size-2, size)
			f.Put(value, size)
			f.Put(0xfffe, 16)
		} else {
			f.Put(bits, length)
		}
	}
	return f.End()
}

// quantization writes a table of values up to most, and returns the largest coefficient for the
// first.
func (f forger) quantization(most int) int {
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
	f.Segment(0xdb, table)
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

// first writes a block's first coefficient.
func (f forger) first(codes *[256]testkit.Code, predicted *int, most int) {
	size := f.IntN(12)
	bits := f.IntN(1 << size)
	difference := testkit.Coefficient(bits, size)
	if v := *predicted + difference; v < -most || v > most {
		size, bits, difference = 0, 0, 0
	}
	*predicted += difference
	f.Code(codes[size])
	f.Put(bits, size)
}

// others writes the other ones, of which another follows with the probability 1-1/ends.
func (f forger) others(codes *[256]testkit.Code, size, ends int) {
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
		if codes[s].Length == 0 || k+s>>4 > 63 {
			s, n = 0, 0
		}
		f.Code(codes[s])
		f.Put(f.IntN(1<<n), n)
		if s == 0 {
			return
		}
		k += s>>4 + 1
	}
}
