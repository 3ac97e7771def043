package decode

import (
	"bytes"
	"encoding/binary"
	"math"
)

// A JPEG writer for tests: image/jpeg's supports neither CMYK, RGB, sampling factors, restarts
// nor scans. Its Huffman codes all have one length, which keeps it short; its quantization is 1
// by default, so that output can be compared with input.
type jpegSpec struct {
	w, h        int
	comps       []jpegPlane
	jfif        bool
	adobe       int // transform; -1: no marker
	restart     int // MCUs
	progressive bool
	separate    bool   // one scan per component
	exif        []byte // for an APP1
	stray       []byte // written before every marker except SOI and those inside scans
	quant       byte   // 0: 1
}

type jpegPlane struct {
	id, h, v byte
	at       func(x, y int) float64 // 0..255, at full size
}

type jpegBits struct {
	bytes.Buffer
	acc  uint32
	have int
}

func (b *jpegBits) put(v uint32, n int) {
	for n--; n >= 0; n-- {
		b.acc = b.acc<<1 | v>>n&1
		if b.have++; b.have == 8 {
			b.WriteByte(byte(b.acc))
			if byte(b.acc) == 0xff {
				b.WriteByte(0)
			}
			b.acc, b.have = 0, 0
		}
	}
}

func (b *jpegBits) flush() {
	for b.have != 0 {
		b.put(1, 1)
	}
}

var jpegACSymbols = func() (s []byte) {
	s = []byte{0x00, 0xf0}
	for run := range 16 {
		for size := 1; size <= 10; size++ {
			s = append(s, byte(run<<4|size))
		}
	}
	return s
}()

var jpegZigzag = func() (z [64]int) {
	i := 0
	for d := range 15 {
		for k := range d + 1 {
			x, y := k, d-k
			if d%2 == 1 {
				x, y = y, x
			}
			if x < 8 && y < 8 {
				z[i] = y*8 + x
				i++
			}
		}
	}
	return z
}()

type jpegWriter struct {
	jpegSpec
	out        bytes.Buffer
	maxH, maxV int
	coef       [][]([64]int) // per component, blocks by row, in whole MCUs
	across     []int
}

func writeJPEG(s jpegSpec) []byte {
	w := jpegWriter{jpegSpec: s}
	if w.quant == 0 {
		w.quant = 1
	}
	for _, c := range w.comps {
		w.maxH, w.maxV = max(w.maxH, int(c.h)), max(w.maxV, int(c.v))
	}
	w.transform()
	w.out.WriteString("\xff\xd8")
	if w.jfif {
		w.segment(0xe0, []byte("JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"))
	}
	if w.exif != nil {
		w.segment(0xe1, append([]byte(exifPrefix), w.exif...))
	}
	if w.adobe >= 0 {
		w.segment(0xee, append([]byte("Adobe\x00\x64\x00\x00\x00\x00"), byte(w.adobe)))
	}
	w.segment(0xdb, append([]byte{0}, bytes.Repeat([]byte{w.quant}, 64)...))
	w.frame()
	dc := append([]byte{0x00, 0, 0, 0, 12}, make([]byte, 12)...)
	w.segment(0xc4, append(dc, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11))
	ac := append(make([]byte, 8), byte(len(jpegACSymbols)))
	ac[0] = 0x10
	w.segment(0xc4, append(append(ac, make([]byte, 8)...), jpegACSymbols...))
	if w.restart > 0 {
		w.segment(0xdd, binary.BigEndian.AppendUint16(nil, uint16(w.restart)))
	}
	w.scans()
	w.out.Write(w.stray)
	w.out.WriteString("\xff\xd9")
	return w.out.Bytes()
}

func (w *jpegWriter) segment(marker byte, body []byte) {
	w.out.Write(w.stray)
	w.out.Write([]byte{0xff, marker})
	w.out.Write(binary.BigEndian.AppendUint16(nil, uint16(len(body)+2)))
	w.out.Write(body)
}

func (w *jpegWriter) frame() {
	b := []byte{8}
	b = binary.BigEndian.AppendUint16(b, uint16(w.h))
	b = binary.BigEndian.AppendUint16(b, uint16(w.w))
	b = append(b, byte(len(w.comps)))
	for _, c := range w.comps {
		b = append(b, c.id, c.h<<4|c.v, 0)
	}
	marker := byte(0xc0)
	if w.progressive {
		marker = 0xc2
	}
	w.segment(marker, b)
}

// transform makes every block's coefficients; samples beyond the image repeat its edge.
func (w *jpegWriter) transform() {
	mx, my := (w.w+8*w.maxH-1)/(8*w.maxH), (w.h+8*w.maxV-1)/(8*w.maxV)
	for _, c := range w.comps {
		across, down := mx*int(c.h), my*int(c.v)
		w.across = append(w.across, across)
		blocks := make([][64]int, across*down)
		fx, fy := w.maxH/int(c.h), w.maxV/int(c.v)
		for i := range blocks {
			var s [64]float64
			for k := range s {
				x, y := (i%across*8+k%8)*fx, (i/across*8+k/8)*fy
				for dy := range fy {
					for dx := range fx {
						s[k] += c.at(min(x+dx, w.w-1), min(y+dy, w.h-1))
					}
				}
				s[k] = s[k]/float64(fx*fy) - 128
			}
			blocks[i] = forwardDCT(&s, float64(w.quant))
		}
		w.coef = append(w.coef, blocks)
	}
}

var jpegCos = func() (c [8][8]float64) {
	for u := range 8 {
		for x := range 8 {
			c[u][x] = math.Cos(float64(2*x+1)*float64(u)*math.Pi/16) / 2
			if u == 0 {
				c[u][x] /= math.Sqrt2
			}
		}
	}
	return c
}()

func forwardDCT(s *[64]float64, q float64) (out [64]int) {
	var rows [64]float64
	for y := range 8 {
		for u := range 8 {
			for x := range 8 {
				rows[y*8+u] += s[y*8+x] * jpegCos[u][x]
			}
		}
	}
	for i, zz := range jpegZigzag {
		u, v := zz%8, zz/8
		sum := 0.0
		for y := range 8 {
			sum += rows[y*8+u] * jpegCos[v][y]
		}
		out[i] = int(math.Round(sum / q))
	}
	return out
}

func (w *jpegWriter) scans() {
	all := make([]int, len(w.comps))
	for i := range all {
		all[i] = i
	}
	switch {
	case w.progressive:
		w.scan(all, 0, 0)
		for i := range all {
			w.scan(all[i:i+1], 1, 63)
		}
	case w.separate:
		for i := range all {
			w.scan(all[i:i+1], 0, 63)
		}
	default:
		w.scan(all, 0, 63)
	}
}

// scan writes coefficients from..to of some components: interleaved if several.
func (w *jpegWriter) scan(comps []int, from, to int) {
	head := []byte{byte(len(comps))}
	for _, i := range comps {
		head = append(head, w.comps[i].id, 0)
	}
	w.segment(0xda, append(head, byte(from), byte(to), 0))
	mx, my := (w.w+8*w.maxH-1)/(8*w.maxH), (w.h+8*w.maxV-1)/(8*w.maxV)
	if len(comps) == 1 {
		c := w.comps[comps[0]]
		fx, fy := w.maxH/int(c.h), w.maxV/int(c.v)
		mx, my = ((w.w+fx-1)/fx+7)/8, ((w.h+fy-1)/fy+7)/8
	}
	var bits jpegBits
	last := make([]int, len(w.comps))
	for mcu := range mx * my {
		if w.restart > 0 && mcu > 0 && mcu%w.restart == 0 {
			bits.flush()
			bits.Write([]byte{0xff, byte(0xd0 + (mcu/w.restart-1)%8)})
			clear(last)
		}
		for _, i := range comps {
			h, v := int(w.comps[i].h), int(w.comps[i].v)
			if len(comps) == 1 {
				h, v = 1, 1
			}
			for k := range h * v {
				b := (mcu/mx*v+k/h)*w.across[i] + mcu%mx*h + k%h
				bits.block(&w.coef[i][b], &last[i], from, to)
			}
		}
	}
	bits.flush()
	w.out.Write(bits.Bytes())
}

func (b *jpegBits) block(c *[64]int, last *int, from, to int) {
	if from == 0 {
		size := b.size(c[0] - *last)
		b.put(uint32(size), 4) // the code of DC symbol n is n
		b.value(c[0]-*last, size)
		*last = c[0]
		from = 1
	}
	run := 0
	for i := from; i <= to; i++ {
		if c[i] == 0 {
			run++
			continue
		}
		for ; run > 15; run -= 16 {
			b.symbol(0xf0)
		}
		size := b.size(c[i])
		b.symbol(byte(run<<4 | size))
		b.value(c[i], size)
		run = 0
	}
	if run > 0 {
		b.symbol(0)
	}
}

func (b *jpegBits) symbol(s byte) { b.put(uint32(bytes.IndexByte(jpegACSymbols, s)), 8) }

func (b *jpegBits) size(v int) (n int) {
	for v = max(v, -v); v > 0; v >>= 1 {
		n++
	}
	return n
}

func (b *jpegBits) value(v, size int) {
	if v < 0 {
		v += 1<<size - 1
	}
	b.put(uint32(v), size)
}
