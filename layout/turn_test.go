package layout

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestTurn(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	sizes := [][2]int{{0, 0}, {0, 5}, {1, 1}, {1, 7}, {1, 8}, {3, 3}, {5, 5}, {13, 17}, {1, 2047}, {1, 2049}, {64, 65}, {100, 61}}
	for _, hw := range sizes {
		for c := 1; c <= 5; c++ {
			h, w := hw[0], hw[1]
			n := h * w * c
			src := make([]byte, n)
			for i := range src {
				src[i] = byte(rng.Uint32())
			}
			// One extra byte on either side, to detect writes outside.
			turned := bytes.Repeat([]byte{0x55}, n+2)
			toNCHW(turned[1:n+1], src, h, w, c)
			for i := range n {
				if got := turned[1+i%c*h*w+i/c]; got != src[i] {
					t.Fatalf("%dx%dx%d: byte %d is %d, want %d", h, w, c, i, got, src[i])
				}
			}
			back := bytes.Repeat([]byte{0x55}, n+2)
			toNHWC(back[1:n+1], turned[1:n+1], h, w, c)
			if !bytes.Equal(back[1:n+1], src) {
				t.Fatalf("%dx%dx%d: not the same after turning twice", h, w, c)
			}
			for _, b := range [][]byte{turned, back} {
				if b[0] != 0x55 || b[n+1] != 0x55 {
					t.Fatalf("%dx%dx%d: wrote outside", h, w, c)
				}
			}
		}
	}
}

func TestTurnAllocatesNothing(t *testing.T) {
	a, b := make([]byte, 300), make([]byte, 300)
	if n := testing.AllocsPerRun(20, func() { toNCHW(a, b, 10, 10, 3); toNHWC(b, a, 10, 10, 3) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkTurn(b *testing.B) {
	const h, w = 375, 500
	for _, c := range []int{3, 4} {
		src, dst := make([]byte, h*w*c), make([]byte, h*w*c)
		b.Run(fmt.Sprintf("nchw/c%d", c), func(b *testing.B) {
			b.SetBytes(h * w * int64(c))
			for b.Loop() {
				toNCHW(dst, src, h, w, c)
			}
		})
		b.Run(fmt.Sprintf("nhwc/c%d", c), func(b *testing.B) {
			b.SetBytes(h * w * int64(c))
			for b.Loop() {
				toNHWC(dst, src, h, w, c)
			}
		})
	}
	b.Run("copy", func(b *testing.B) {
		src, dst := make([]byte, h*w*3), make([]byte, h*w*3)
		b.SetBytes(h * w * 3)
		for b.Loop() {
			copy(dst, src)
		}
	})
}
