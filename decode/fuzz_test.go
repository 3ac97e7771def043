package decode_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"

	. "github.com/batchfs/batchfs/decode"
)

// seeds are all small files, good, odd and damaged.
func seeds(most int) []file {
	all := slices.Concat(jpegFiles(), filesOf(allSamples()), filesOf(rotatable(16, 35, 6, true)))
	for _, f := range damagedFiles() {
		all = append(all, file{f.name, f.data})
	}
	for _, f := range pngEXIFs() {
		all = append(all, f.file)
	}
	return slices.DeleteFunc(all, func(f file) bool { return len(f.data) >= most })
}

func FuzzReadHeader(f *testing.F) {
	for _, s := range seeds(1000) {
		f.Add(s.data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		whole, wholeErr := ReadHeader(data, true)
		if wholeErr != nil {
			explained(t, "whole", wholeErr)
		} else if whole.Width < 1 || whole.Height < 1 || whole.Orientation < 1 || whole.Orientation > 8 || whole.Scratch < 0 {
			t.Errorf("header %+v", whole)
		}
		part, err := ReadHeader(data, false)
		switch {
		case errors.Is(err, ErrShort):
		case err != nil:
			explained(t, "part", err)
			if wholeErr == nil {
				t.Errorf("whole: %+v, part: %v", whole, err)
			}
		case wholeErr == nil && withTail(part, data) != whole:
			t.Errorf("whole: %+v, part: %+v", whole, part)
		}
	})
}

// FuzzDecode: whatever the bytes and the region, nothing crashes, nothing is written outside the
// rows, and all kernels give the same result, alone and in pairs. If the input says so, chunk
// checksums of a PNG are corrected, since otherwise they catch most damage, and those of a packed
// image are ignored. More seeds are read from the directory in BATCHFS_JPEG_CORPUS.
func FuzzDecode(f *testing.F) {
	for i, s := range seeds(3000) {
		f.Add(s.data, uint64(0), uint8(0))
		f.Add(s.data, uint64(0x0102030405060708), uint8(i))
	}
	if dir := os.Getenv("BATCHFS_JPEG_CORPUS"); dir != "" {
		names, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || names == nil {
			f.Fatalf("%s: no files, %v", dir, err)
		}
		for _, name := range names {
			if data, err := os.ReadFile(name); err == nil {
				f.Add(data, uint64(0x0807060504030201), uint8(0))
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, region uint64, how uint8) {
		if how&4 != 0 && Sniff(data) == PNG {
			data = withChecksums(data)
		}
		a := whole(file{"fuzzed", data})
		if a.head.Width == 0 || pixelsOf(a.head) > 1<<14 {
			return
		}
		if a.head.Reduces() {
			a = a.reduced(1 << (how >> 3 & 3))
		}
		part := func(shift, most int) int { return int(region>>shift&0xffff) % most }
		w, h := a.region.W, a.region.H
		r := Region{X: part(0, w), Y: part(16, h)}
		r.W, r.H = w-r.X-part(32, w-r.X), h-r.Y-part(48, h-r.Y)
		a = a.from(r).by(EntryRule(r.Y%9-1), nil)
		a.verified = how&32 != 0
		c, o := newCoders(t), Options{Color: Color(how & 1), IgnoreOrientation: how&2 != 0}
		c.everywhere(a, o)
		if Sniff(data) == PNG {
			sameStored(t, c, a.file)
		}
		if !native || Sniff(data) != JPEG {
			return
		}
		sound, others := whole(corpus("ycc-2x2-17x33.jpg").file), newCoders(t)
		for _, o.Kernel = range Kernels()[1:] {
			by := [2]coder{c.with(o), others.with(o)}
			samePair(t, by, [2]ask{a, sound})
			samePair(t, by, [2]ask{sound, a})
		}
	})
}

// withChecksums returns a PNG's bytes with the right checksum for every chunk.
func withChecksums(data []byte) []byte {
	data = bytes.Clone(data)
	for chunk := range pngChunks(data) {
		binary.BigEndian.PutUint32(chunk[len(chunk)-4:], crc32.ChecksumIEEE(chunk[4:len(chunk)-4]))
	}
	return data
}

// FuzzUnpack: unpacking gives an error or a file, whatever the packed bytes.
func FuzzUnpack(f *testing.F) {
	for _, s := range allSamples() {
		if s.format == Packed && len(s.data) < 2000 {
			f.Add(s.data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < packedHead {
			return
		}
		if _, err := Unpack(sealed(bytes.Clone(data))); err != nil && !errors.Is(err, ErrNoPackedForm) {
			explained(t, "fuzzed", err)
		}
	})
}

// FuzzPackUnpack: whatever can be packed keeps its pixels, and unpacking keeps them, too.
func FuzzPackUnpack(f *testing.F) {
	for _, s := range allSamples() {
		if len(s.data) < 3000 {
			f.Add(s.data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a := whole(file{"original", data})
		if a.head.Width == 0 || pixelsOf(a.head) > 1<<14 {
			return
		}
		d := newCoder(t, Options{})
		want := d.decode(t, a)
		for _, keep := range []Remainder{ForMemory, ForFile} {
			p, err := d.Pack(data, a.head, keep)
			if err != nil {
				if want.err == nil && !errors.Is(err, ErrNoPackedForm) {
					t.Fatal(err)
				}
				continue
			}
			if got := d.decode(t, whole(file{"packed", p})); want.err != nil || !got.same(want) {
				t.Fatalf("%s, not %s, or other pixels", got, want)
			}
			if keep == ForFile {
				original, err := Unpack(p)
				if got := d.decode(t, whole(file{"unpacked", original})); err != nil || !got.same(want) {
					t.Fatalf("unpacked: %s, %v, or other pixels", got, err)
				}
			}
		}
	})
}

func FuzzPartOf(f *testing.F) {
	f.Add(rawBMP{w: 4, h: 3, bits: 24, pixels: make([]byte, 36)}.join(), int64(200), 1, 1)
	f.Add([]byte("P6\n4 3\n255\n012345678901234567890123456789012345"), int64(47), 0, 2)
	f.Fuzz(func(t *testing.T, head []byte, size int64, y, rows int) {
		if from, to, ok := PartOf(head, size, Region{Y: y, W: 1, H: rows}, 1); ok && (from < 0 || from > to || to > size) {
			t.Errorf("bytes %d to %d of %d", from, to, size)
		}
	})
}
