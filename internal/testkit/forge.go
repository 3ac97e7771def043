package testkit

import (
	"math/rand/v2"
	"slices"
)

// A Forger writes JPEGs segment by segment and code by code: legal ones that no encoder makes.
// Random numbers decide what the format leaves open.
type Forger struct {
	*rand.Rand
	Out        []byte
	last, bits int // an incomplete byte, and how many bits it has
}

// NewForger begins a file.
func NewForger(r *rand.Rand) *Forger { return &Forger{Rand: r, Out: []byte{0xff, 0xd8}} }

// Segment writes a marker with a body.
func (f *Forger) Segment(marker byte, body []byte) {
	f.Out = append(append(f.Out, 0xff, marker, byte((len(body)+2)>>8), byte(len(body)+2)), body...)
}

// Put writes the last n bits of v, up to 32.
func (f *Forger) Put(v, n int) {
	for f.last, f.bits = f.last<<n|v&(1<<n-1), f.bits+n; f.bits >= 8; f.bits -= 8 {
		b := byte(f.last >> (f.bits - 8))
		if f.Out = append(f.Out, b); b == 0xff {
			f.Out = append(f.Out, 0)
		}
	}
	f.last &= 1<<f.bits - 1
}

// Pad completes the last byte.
func (f *Forger) Pad() {
	if f.bits > 0 {
		f.Put(f.IntN(256), 8-f.bits)
	}
}

// Restart writes the nth restart marker of a scan, from 0 on.
func (f *Forger) Restart(n int) {
	f.Pad()
	f.Out = append(f.Out, 0xff, 0xd0+byte(n&7))
}

// End returns the file.
func (f *Forger) End() []byte {
	f.Pad()
	return append(f.Out, 0xff, 0xd9)
}

// A Code is a Huffman code.
type Code struct{ Length, Bits int }

// Code writes one.
func (f *Forger) Code(c Code) { f.Put(c.Bits, c.Length) }

// Codes defines random codes of up to 16 bits for symbols.
func (f *Forger) Codes(table byte, symbols []byte) (all [256]Code) {
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
		all[s] = Code{lengths[i], next}
		next = (next + 1) << (lengths[i+1] - lengths[i])
	}
	f.Segment(0xc4, append(definition, symbols...))
	return all
}

// Coefficient is the value of a coefficient of size bits.
func Coefficient(bits, size int) int {
	if size == 0 || bits>>(size-1) == 1 {
		return bits
	}
	return bits - 1<<size + 1
}

// Orientation is the body of a JPEG's segment 0xe1 with an orientation in EXIF.
func Orientation(orientation int) []byte {
	const tiff = "II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00"
	return append([]byte("Exif\x00\x00"+tiff), byte(orientation), 0, 0, 0, 0, 0, 0, 0)
}
