//go:build cgo

package decode

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestBaselineProgressive: no kernel leaves any of the usual kinds of progressive files to
// libjpeg-turbo, or decodes one that lacks a scan.
func TestBaselineProgressive(t *testing.T) {
	names, err := filepath.Glob(filepath.Join("testdata", "progressive", "*.jpg"))
	if err != nil || len(names) < 40 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	for _, d := range newKernelSet(t)[RGB][1:] {
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := decodeTo(t, d, name, data, headerOf(data)); err != nil || d.TakeJPEGs() != (JPEGs{Baseline: 1}) {
				t.Errorf("%s: left by %s, or %v", name, d.options.Kernel, err)
			}
			for n := 1; n < bytes.Count(data, []byte{0xff, markSOS}); n++ {
				short := scansUpTo(data, n)
				if _, err := decodeTo(t, d, name, short, headerOf(short)); err != nil || d.TakeJPEGs() != (JPEGs{Data: 1}) {
					t.Errorf("%s with %d scans: not left by %s, or %v", name, n, d.options.Kernel, err)
				}
			}
		}
	}
}

// scansOf splits a JPEG into what precedes its scans, the scans with the tables before each, and
// its end.
func scansOf(data []byte) (head []byte, scans [][]byte, end []byte) {
	from, scanned := 0, false
	for p := 2; ; {
		m, body, next := nextSegment(data, p)
		at := next - len(body) - 4
		if m == markEOI {
			at = next - 2
		}
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

// TestBaselineScans: what the decoder accepts of scans in another order, left out or repeated, and
// with other parameters, is what libjpeg-turbo decodes without objection to the same pixels.
func TestBaselineScans(t *testing.T) {
	all, random := newKernelSet(t), rand.New(rand.NewPCG(8, 9))
	for _, name := range []string{"usual-tiny", "deep-gray-restarts", "alone-tiny", "bands-1x1"} {
		head, scans, end := scansOf(testFile(t, "progressive/"+name+".jpg"))
		try := func(what string, scans ...[]byte) {
			data := slices.Concat(head, slices.Concat(scans...), end)
			if h, err := ReadHeader(data, true); err == nil {
				all.same(t, name+" "+what, data, h, RGB, Region{0, 0, h.Width, h.Height})
			}
		}
		try("unchanged", scans...)
		if all.taken().Baseline == 0 {
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

// bitByBit is a progressive block of zeros in bands, each of which takes a scan for its bits from
// low on, and one for each bit below.
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

// TestBaselineScanLimits: libjpeg knows no more than 13 bits, of which a scan refines one, and we
// refuse more than 500 scans.
func TestBaselineScanLimits(t *testing.T) {
	var single [][2]byte
	for k := range byte(64) {
		single = append(single, [2]byte{k, k})
	}
	eoi := []byte{0xff, markEOI}
	all, accepted := newKernelSet(t), int64(len(Kernels())-1)
	for _, f := range []struct {
		name     string
		data     []byte
		accepted int64
	}{
		{"13 bits", bitByBit(13, [2]byte{0, 0}, [2]byte{1, 63}), accepted},
		{"14 bits", bitByBit(14, [2]byte{0, 0}, [2]byte{1, 63}), 0},
		{"two bits in a scan", slices.Concat(bareJPEG(8, 8, 1, 1, true, 0), zeroScan(0, 0, 0), zeroScan(1, 63, 2), zeroScan(1, 63, 0x20), eoi), 0},
		{"64 scans", bitByBit(0, single...), accepted},
		{"512 scans", bitByBit(7, single...), 0},
	} {
		all.same(t, f.name, f.data, headerOf(f.data), RGB, Region{0, 0, 8, 8})
		if n := all.taken().Baseline; n != f.accepted {
			t.Errorf("%s: %d kernels accepted it, want %d", f.name, n, f.accepted)
		}
	}
}

// TestBaselineRunEndsAtRestart: a run of empty blocks that claims blocks beyond a restart marker
// ends there.
func TestBaselineRunEndsAtRestart(t *testing.T) {
	data := bareJPEG(32, 8, 1, 1, true, 2)
	data = append(data, 0xff, markDHT, 0, 22, 0x10, 1, 1, 1)
	data = append(append(data, make([]byte, 13)...), 0x00, 0x08, 0x10) // 0: end, 10: a value, 110: a run of two or three
	data = append(data, 0xff, markSOS, 0, 8, 1, 1, 0, 0, 0, 0, 0x3f, 0xff, markRST0, 0x3f)
	data = append(data, 0xff, markSOS, 0, 8, 1, 1, 0, 1, 63, 0, 0b1101_1111, 0xff, markRST0, 0b1011_1111, 0b1100_1111, 0xff, markEOI)
	all := newKernelSet(t)
	all.same(t, "a run across a restart marker", data, headerOf(data), RGB, Region{0, 0, 32, 8})
	if n := all.taken().Baseline; n != int64(len(Kernels())-1) {
		t.Errorf("%d kernels accepted it", n)
	}
}

// TestBaselineLongRuns: the longest runs of empty blocks end where they say, in both kinds of
// passes.
func TestBaselineLongRuns(t *testing.T) {
	const side, blocks = 1040, 130 * 130
	all := newKernelSet(t)
	for bits, more := range map[int]int{13: 0x1001, 14: 0x12d} {
		run := 1<<bits + more
		f := &forger{Rand: rand.New(rand.NewPCG(1, 2)), out: bareJPEG(side, side, 1, 1, true, 0)}
		f.segment(markDHT, append(append([]byte{0x10, 1, 1, 1}, make([]byte, 13)...), 0x00, 0x01, byte(bits<<4))) // 0: end, 10: a value, 110: a run
		f.segment(markSOS, []byte{1, 1, 0, 0, 0, 0})
		f.put(0, blocks)
		f.pad()
		for _, high := range []int{0, 1} {
			f.segment(markSOS, []byte{1, 1, 0, 1, 63, byte(high<<4 | 1 - high)})
			f.put(0b110, 3)
			f.put(more, bits)
			f.put([]int{0b1010, 0b01}[high], 4-2*high) // a value, or its correction
			f.put(0, blocks-run-1)
			f.pad()
		}
		data := append(f.out, 0xff, markEOI)
		all.same(t, fmt.Sprintf("a run of %d bits", bits), data, headerOf(data), RGB, Region{0, 0, side, side})
		if n := all.taken(); n.Baseline != int64(len(Kernels())-1) {
			t.Errorf("a run of %d bits: %+v", bits, n)
		}
	}
}
