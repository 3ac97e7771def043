package decode_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/testkit"
)

// accepting is the number of kernels that our own decoder has.
func accepting() int { return len(Kernels()) - 1 }

// TestBaselineProgressive: no kernel leaves any of the usual kinds of progressive files to
// libjpeg-turbo, or decodes one that lacks a scan.
func TestBaselineProgressive(t *testing.T) {
	needsC(t)
	c := newCoders(t)
	for _, name := range testFiles("progressive/*.jpg") {
		data := testFile(name)
		if got, ours := c.everywhere(whole(file{name, data}), Options{}); got.err != nil || ours != accepting() {
			t.Errorf("%s: taken by %d kernels, %v", name, ours, got.err)
		}
		for n := 1; n < bytes.Count(data, []byte{0xff, markSOS}); n++ {
			short := whole(file{fmt.Sprintf("%s with %d scans", name, n), scansUpTo(data, n)})
			if got, ours := c.everywhere(short, Options{}); got.err != nil || ours != 0 || got.jpegs != (JPEGs{Data: 1}) {
				t.Errorf("%s: taken by %d kernels, %s", short, ours, got)
			}
		}
	}
}

// scansOf splits a JPEG into what precedes its scans, the scans with the tables before each, and
// its end.
func scansOf(data []byte) (head []byte, scans [][]byte, end []byte) {
	from, scanned := 0, false
	for p := 2; ; {
		m, at, next := nextSegment(data, p)
		if from == 0 && (m == markDHT || m == markDRI || m == markSOS) {
			head, from = data[:at], at
		}
		if scanned {
			scans, from = append(scans, data[from:at]), at
		}
		if m == markEOI {
			return head, scans, data[at:]
		}
		scanned, p = m == markSOS, next
	}
}

// TestBaselineScans: if the decoder accepts scans that are reordered, left out, repeated, or have
// other parameters, libjpeg-turbo decodes them to the same pixels without objection.
func TestBaselineScans(t *testing.T) {
	needsC(t)
	c, random := newCoders(t), rand.New(rand.NewPCG(8, 9))
	for _, name := range []string{"usual-tiny", "deep-gray-restarts", "alone-tiny", "bands-1x1"} {
		head, scans, end := scansOf(testFile("progressive/" + name + ".jpg"))
		try := func(what string, scans ...[]byte) (ours int) {
			if a := whole(file{name + " " + what, slices.Concat(head, slices.Concat(scans...), end)}); a.head.Width > 0 {
				_, ours = c.everywhere(a, Options{})
			}
			return ours
		}
		if try("unchanged", scans...) != accepting() {
			t.Fatalf("%s was not accepted", name)
		}
		for i, scan := range scans {
			coarse := bytes.Repeat([]byte{99}, 64)
			tables := slices.Concat([]byte("\xff\xdb\x00\x84\x00"), coarse, []byte{1}, coarse)
			try(fmt.Sprintf("with another quantization before scan %d", i), slices.Insert(slices.Clone(scans), i, tables)...)
			try(fmt.Sprintf("without scan %d", i), slices.Concat(scans[:i], scans[i+1:])...)
			for k := range scans {
				try(fmt.Sprintf("with scan %d also before %d", i, k), slices.Insert(slices.Clone(scans), k, scan)...)
			}
			parameters := bytes.Index(scan, []byte{0xff, markSOS}) + 5
			parameters += 2 * int(scan[parameters-1])
			for n := range 3 * 256 {
				if testing.Short() && n < 2*256 && n%256 > 70 && n%16 != 0 {
					continue // the first two parameters are coefficients, whose numbers end at 63
				}
				other := slices.Clone(scans)
				other[i] = bytes.Clone(scan)
				other[i][parameters+n/256] = byte(n)
				try(fmt.Sprintf("with %d as parameter %d of scan %d", n%256, n/256, i), other...)
			}
		}
		for n := range 200 {
			other := slices.Clone(scans)
			random.Shuffle(len(other), func(i, k int) { other[i], other[k] = other[k], other[i] })
			try(fmt.Sprintf("shuffled, try %d", n), other...)
		}
	}
}

// zeroScan is a scan of a block of zeros.
func zeroScan(first, last, bits byte) []byte {
	return []byte{0xff, markSOS, 0, 8, 1, 1, 0, first, last, bits, 0x7f}
}

// bitByBit is a progressive block of zeros in bands. Each band takes a scan for its bits from low
// on, and a scan for each bit below.
func bitByBit(low byte, bands ...[2]byte) []byte {
	data := bareJPEG(8, 8, 1, 1, true, 0)
	for _, band := range bands {
		data = append(data, zeroScan(band[0], band[1], low)...)
		for bit := low; bit > 0; bit-- {
			data = append(data, zeroScan(band[0], band[1], bit<<4|(bit-1))...)
		}
	}
	return append(data, 0xff, markEOI)
}

// longRun is a progressive image of empty blocks, except for one after the longest run of bits
// bits, in both kinds of passes.
func longRun(bits, more int) []byte {
	const side, blocks = 1040, 130 * 130
	f := testkit.Forger{Rand: rand.New(rand.NewPCG(1, 2)), Out: bareJPEG(side, side, 1, 1, true, 0)}
	f.Segment(markDHT, append(append([]byte{0x10, 1, 1, 1}, make([]byte, 13)...), 0x00, 0x01, byte(bits<<4))) // 0: end, 10: a value, 110: a run
	f.Segment(markSOS, []byte{1, 1, 0, 0, 0, 0})
	for range blocks {
		f.Put(0, 1)
	}
	f.Pad()
	for _, high := range []int{0, 1} {
		f.Segment(markSOS, []byte{1, 1, 0, 1, 63, byte(high<<4 | 1 - high)})
		f.Put(0b110, 3)
		f.Put(more, bits)
		f.Put([]int{0b1010, 0b01}[high], 4-2*high) // a value, or its correction
		for range blocks - (1<<bits + more) - 1 {
			f.Put(0, 1)
		}
		f.Pad()
	}
	return f.End()
}

// TestBaselineScanLimits: libjpeg supports at most 13 bits, one of which a scan refines, and we
// refuse more than 500 scans. The longest runs of empty blocks end where they should, and a run
// that claims blocks beyond a restart marker ends at the marker.
func TestBaselineScanLimits(t *testing.T) {
	var single [][2]byte
	for k := range byte(64) {
		single = append(single, [2]byte{k, k})
	}
	eoi := []byte{0xff, markEOI}
	run := bareJPEG(32, 8, 1, 1, true, 2)
	run = append(run, 0xff, markDHT, 0, 22, 0x10, 1, 1, 1)
	run = append(append(run, make([]byte, 13)...), 0x00, 0x08, 0x10) // 0: end, 10: a value, 110: a run of two or three
	run = append(run, 0xff, markSOS, 0, 8, 1, 1, 0, 0, 0, 0, 0x3f, 0xff, markRST0, 0x3f)
	run = append(run, 0xff, markSOS, 0, 8, 1, 1, 0, 1, 63, 0, 0b1101_1111, 0xff, markRST0, 0b1011_1111, 0b1100_1111, 0xff, markEOI)
	c := newCoders(t)
	for _, f := range []struct {
		file
		accepted int
	}{
		{file{"13 bits", bitByBit(13, [2]byte{0, 0}, [2]byte{1, 63})}, accepting()},
		{file{"14 bits", bitByBit(14, [2]byte{0, 0}, [2]byte{1, 63})}, 0},
		{file{"two bits in a scan", slices.Concat(bareJPEG(8, 8, 1, 1, true, 0), zeroScan(0, 0, 0), zeroScan(1, 63, 2), zeroScan(1, 63, 0x20), eoi)}, 0},
		{file{"64 scans", bitByBit(0, single...)}, accepting()},
		{file{"512 scans", bitByBit(7, single...)}, 0},
		{file{"a run across a restart marker", run}, accepting()},
		{file{"a run of 13 bits", longRun(13, 0x1001)}, accepting()},
		{file{"a run of 14 bits", longRun(14, 0x12d)}, accepting()},
	} {
		if _, ours := c.everywhere(whole(f.file), Options{}); ours != f.accepted {
			t.Errorf("%s: %d kernels accepted it, want %d", f.name, ours, f.accepted)
		}
	}
}

// A forger writes legal progressive JPEGs symbol by symbol, with features that few or no encoders
// use: any bands and bits per scan, scans of two components, a restart interval and random codes of
// up to 16 bits for each scan, and runs of blocks that go beyond a restart or the end.
type forger struct {
	*testkit.Forger
	w, h, comps     int
	across, down    int    // in MCUs
	fh, fv          [3]int // sampling factors
	interval, scans int
	missing         [3][64]int // bits yet to come; -1: all
	blocks          [3][][64]int
}

func newForger(seed uint64) *forger {
	f := &forger{Forger: testkit.NewForger(rand.New(rand.NewPCG(seed, 1))), comps: 1, fh: [3]int{1, 1, 1}, fv: [3]int{1, 1, 1}}
	f.w, f.h = 20+f.IntN(60), 1+f.IntN(40)
	if f.IntN(4) > 0 {
		f.comps, f.fh[0], f.fv[0] = 3, 1+f.IntN(2), 1+f.IntN(2)
	}
	f.across, f.down = (f.w+8*f.fh[0]-1)/(8*f.fh[0]), (f.h+8*f.fv[0]-1)/(8*f.fv[0])
	f.Segment(markDQT, append([]byte{0}, bytes.Repeat([]byte{1}, 64)...))
	frame := []byte{8, 0, byte(f.h), 0, byte(f.w), byte(f.comps)}
	for c := range f.comps {
		frame = append(frame, byte(c), byte(f.fh[c]<<4|f.fv[c]), 0)
		f.blocks[c] = make([][64]int, f.across*f.fh[c]*f.down*f.fv[c])
		for k := range 64 {
			f.missing[c][k] = -1
		}
	}
	f.Segment(markSOF2, frame)
	return f
}

// scan writes a scan: its header, what block writes for each block, and restart markers.
func (f *forger) scan(of []int, first, last, high, low int, restart func(), block func(i int, b *[64]int)) {
	header := []byte{byte(len(of))}
	for _, c := range of {
		header = append(header, byte(c), byte(c<<4))
	}
	f.Segment(markSOS, append(header, byte(first), byte(last), byte(high<<4|low)))
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
			f.Restart(m/f.interval - 1)
			restart()
		}
		for i, c := range of {
			for n := range h[c] * v[c] {
				y, x := m/across*v[c]+n/h[c], m%across*h[c]+n%h[c]
				block(i, &f.blocks[c][y*f.across*f.fh[c]+x])
			}
		}
	}
	f.Pad()
	for _, c := range of {
		for k := first; k <= last; k++ {
			f.missing[c][k] = low
		}
	}
}

func (f *forger) dc(of []int, high, low int) {
	var codes [3][256]testkit.Code
	for _, c := range of {
		if high == 0 {
			codes[c] = f.Codes(byte(c), []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
		}
	}
	var predicted [3]int
	f.scan(of, 0, 0, high, low, func() { predicted = [3]int{} }, func(i int, b *[64]int) {
		if high > 0 {
			f.Put(f.IntN(2), 1)
			return
		}
		size := f.IntN(12 - low)
		bits := f.IntN(1 << size)
		if v := (predicted[i] + testkit.Coefficient(bits, size)) << low; v > 3000 || v < -3000 {
			size, bits = 0, 0
		}
		predicted[i] += testkit.Coefficient(bits, size)
		f.Code(codes[of[i]][size])
		f.Put(bits, size)
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
	codes, run, ending := f.Codes(0x10, symbols), 0, f.IntN(9)
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
			f.Code(codes[s])
			if size == 0 && skip < 15 {
				more := f.IntN(1 << skip)
				f.Put(more, skip)
				run = 1<<skip + more
				break
			}
			bits := f.IntN(1 << size)
			f.Put(bits, size)
			for ; b[k] != 0 || skip > 0; k++ {
				if b[k] != 0 {
					f.Put(f.IntN(2), 1)
				} else {
					skip--
				}
			}
			if size > 0 {
				b[k] = 1 // only whether it is zero matters
			}
			k++
		}
		if run > 0 {
			for run--; k <= last; k++ {
				if b[k] != 0 {
					f.Put(f.IntN(2), 1)
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
				return f.End()
			}
			continue
		}
		if f.IntN(4) == 0 {
			f.interval = f.IntN(9)
			f.Segment(markDRI, []byte{0, byte(f.interval)})
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
// scans, or makes other pixels from it, or from one with an inverted bit.
func TestBaselineForged(t *testing.T) {
	needsC(t)
	files := uint64(400)
	if testing.Short() {
		files = 40
	}
	c, tried := newCoders(t), 0
	for seed := range files {
		f := newForger(seed)
		data := f.forge()
		o := Options{Color: Color(f.IntN(2))}
		_, ours := c.everywhere(whole(file{fmt.Sprint("forged ", seed), data}), o)
		if f.scans <= 64 && ours != accepting() {
			t.Errorf("forged %d: accepted by %d kernels", seed, ours)
		} else if ours > 0 {
			tried++
		}
		data[f.IntN(len(data))] ^= 1 << f.IntN(8)
		if a := whole(file{fmt.Sprint("forged, damaged ", seed), data}); a.head.Format == JPEG && pixelsOf(a.head) < 1<<14 {
			c.everywhere(a.some(f.Rand), o)
		}
		if t.Failed() {
			return
		}
	}
	if t.Logf("%d of %d", tried, files); tried < int(files)/2 {
		t.Errorf("only %d of %d were accepted", tried, files)
	}
}
