package decode

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// guardedMemory returns memory that is followed by an inaccessible page.
func guardedMemory(t testing.TB, size int) []byte {
	page := unix.Getpagesize()
	usable := (size + page - 1) / page * page
	m, err := unix.Mmap(-1, 0, usable+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(m) })
	if err := unix.Mprotect(m[usable:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return m[:usable]
}

// atEnd returns the last n bytes of memory.
func atEnd(memory []byte, n int) []byte {
	return memory[len(memory)-n:]
}

// TestNothingBeyondMemory: not a byte after a file or a destination is even read, including when
// rows are written from last to first. Doing so would crash.
func TestNothingBeyondMemory(t *testing.T) {
	const most = 1 << 20
	input, output := guardedMemory(t, most), guardedMemory(t, most)
	eachSample(t, func(t *testing.T, set codecSet, s *sample) {
		if set.goes || s.w*s.h*3 > most {
			return // Go checks for itself
		}
		data := atEnd(input, len(s.data))
		copy(data, s.data)
		h := headerOf(data)
		d := set.decoder(t, Options{})
		for _, o := range []uint8{1, 4} {
			if s.format.Raw() && o != 1 {
				continue // these formats have no orientation
			}
			for _, c := range []Color{RGB, Gray} {
				v := view{Header: h, Region: Region{0, 0, h.Width, h.Height}, Scale: 1, Color: c, Orientation: o}
				stride := h.Width * c.Channels()
				dst := Image{atEnd(output, stride*h.Height), stride, h.Height, h.Width}
				if err := d.codecs[h.Format](&d.kept, dst, data, v); err != nil {
					t.Error(fmt.Errorf("%s turned by %d: %w", s.name, o, err))
				}
			}
		}
	})
}
