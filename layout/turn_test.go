package layout

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestTurnSizes(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	for _, k := range Kernels() {
		for _, size := range []int{1, 2, 4} {
			for _, hw := range [][2]int{{0, 0}, {0, 5}, {1, 1}, {1, 8}, {3, 3}, {5, 5}, {13, 17}, {1, 2047}, {1, 2049}, {64, 65}, {100, 61}} {
				for c := 1; c <= 5; c++ {
					checkTurn(t, k, hw[0], hw[1], c, size, randomBytes(rng, hw[0]*hw[1]*c*size))
				}
			}
			for w := 2; w <= 70; w++ {
				checkTurn(t, k, 1, w, 3, size, randomBytes(rng, w*3*size))
			}
		}
	}
}

func FuzzTurn(f *testing.F) {
	f.Add(uint8(3), uint8(21), uint8(3), []byte("elements"))
	f.Fuzz(func(t *testing.T, n, c, size uint8, seed []byte) {
		channels, bytes := int(c%6)+1, 1<<(size%3)
		src := make([]byte, int(n)*channels*bytes)
		for i := range src {
			src[i] = byte(i)
			if len(seed) > 0 {
				src[i] ^= seed[i%len(seed)]
			}
		}
		for _, k := range Kernels() {
			checkTurn(t, k, 1, int(n), channels, bytes, src)
		}
	})
}

// turn turns one sample of n pixels of c elements.
func turn(k Kernel, to Order, dst, src []byte, n, c, size int) {
	s := Spec{N: 1, H: 1, W: n, C: c, DType: map[int]DType{1: Uint8, 2: BFloat16, 4: Float32}[size], Order: 1 - to}
	Turn(dst[:n*c*size], to, src[:n*c*size], s, k)
}

// checkTurn turns pixels into planes and back, between guards; and two samples of them at once.
func checkTurn(t *testing.T, k Kernel, h, w, c, size int, src []byte) {
	t.Helper()
	n := len(src)
	turned, back := bytes.Repeat([]byte{0x55}, n+2), bytes.Repeat([]byte{0x55}, n+2)
	turn(k, NCHW, turned[1:n+1], src, h*w, c, size)
	for i := range n {
		element, b := i/size, i%size
		if at := (element%c*h*w+element/c)*size + b; turned[1+at] != src[i] {
			t.Fatalf("%s: %dx%dx%d of %d: byte %d is wrong", k, h, w, c, size, at)
		}
	}
	turn(k, NHWC, back[1:n+1], turned[1:n+1], h*w, c, size)
	if !bytes.Equal(back[1:n+1], src) {
		t.Fatalf("%s: %dx%dx%d of %d: not the same after turning twice", k, h, w, c, size)
	}
	s := Spec{N: 2, H: h, W: w, C: c, DType: map[int]DType{1: Uint8, 2: Float16, 4: Float32}[size]}
	two, planes := slices.Repeat(src, 2), slices.Repeat(turned[1:n+1], 2)
	for to, want := range map[Order][]byte{NHWC: two, NCHW: planes} {
		got := make([]byte, 2*n)
		if Turn(got, to, two, s, k); !bytes.Equal(got, want) {
			t.Fatalf("%s: two of %dx%dx%d of %d to %v: wrong", k, h, w, c, size, to)
		}
	}
	for _, b := range [][]byte{turned, back} {
		if b[0] != 0x55 || b[n+1] != 0x55 {
			t.Fatalf("%s: %dx%dx%d of %d: wrote outside", k, h, w, c, size)
		}
	}
}

func BenchmarkTurnSizes(b *testing.B) {
	const h, w, c = 224, 224, 3
	for _, k := range Kernels() {
		for _, size := range []int{1, 2, 4} {
			src, dst := make([]byte, h*w*c*size), make([]byte, h*w*c*size)
			b.Run(fmt.Sprintf("%s/nchw/%d", k, size), func(b *testing.B) {
				b.SetBytes(int64(len(src)))
				for b.Loop() {
					turn(k, NCHW, dst, src, h*w, c, size)
				}
			})
			b.Run(fmt.Sprintf("%s/nhwc/%d", k, size), func(b *testing.B) {
				b.SetBytes(int64(len(src)))
				for b.Loop() {
					turn(k, NHWC, dst, src, h*w, c, size)
				}
			})
		}
	}
}
