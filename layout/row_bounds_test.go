//go:build linux

package layout

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
)

// fenced returns memory between two inaccessible pages: an access outside crashes the test.
func fenced(t *testing.T) []byte {
	t.Helper()
	const page, pages = 16 << 10, 3
	all, err := syscall.Mmap(-1, 0, (pages+2)*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Munmap(all) })
	for _, fence := range [][]byte{all[:page], all[(pages+1)*page:]} {
		if err := syscall.Mprotect(fence, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return all[page : (pages+1)*page]
}

// Rows and slots at the very start and end of memory, like a decoder's last row and a batch's
// first and last slot.
func TestWriterStaysInside(t *testing.T) {
	rows, slots := fenced(t), fenced(t)
	for d := Uint8; d <= Float32; d++ {
		for _, channels := range []int{1, 3} {
			t.Run(fmt.Sprintf("%v/%d", d, channels), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(7, uint64(d)))
				s := Spec{N: 1, H: 1, C: channels, DType: d}
				writers := newWriters(t, s, normFor(s))
				table := sampleCase{spec: s, norm: normFor(s)}.referenceTable()
				for width := 1; width <= 70; width++ {
					for variant := range 8 {
						s.W, s.Order = width, Order(variant&1)
						c := sampleCase{spec: s, norm: normFor(s), height: 1, width: width, flip: variant&2 != 0}
						c.pixels = atEnd(rows, width*channels, variant&4 != 0)
						copy(c.pixels, randomBytes(rng, len(c.pixels)))
						slot, want := atEnd(slots, int(s.SampleBytes()), variant&4 != 0), c.slot(&table)
						for _, w := range writers {
							clear(slot)
							w.Begin(slot, s, 1, width, c.flip, 0)
							fromC(w.Writer, c, rng)
							w.End()
							if !bytes.Equal(slot, want) {
								t.Fatalf("%s: %v: byte %d differs", w.kernel, c, firstDifference(slot, want))
							}
						}
					}
				}
			})
		}
	}
}

func TestTurnStaysInside(t *testing.T) {
	a, b := fenced(t), fenced(t)
	for _, k := range Kernels() {
		for n := 1; n <= 70; n++ {
			for _, size := range []int{1, 2, 4} {
				for _, end := range []bool{false, true} {
					bytes := n * 3 * size
					turn(k, NCHW, atEnd(a, bytes, end), atEnd(b, bytes, end), n, 3, size)
					turn(k, NHWC, atEnd(b, bytes, end), atEnd(a, bytes, end), n, 3, size)
				}
			}
		}
	}
}

// atEnd returns the first or the last n bytes of memory.
func atEnd(memory []byte, n int, end bool) []byte {
	if end {
		return memory[len(memory)-n:]
	}
	return memory[:n:n]
}
