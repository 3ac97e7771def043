package layout

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/batchfs/batchfs/internal/kernel"
)

func TestTurnSizes(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	for _, k := range kernels() {
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
		for _, k := range kernels() {
			checkTurn(t, k, 1, int(n), channels, bytes, src)
		}
	})
}

// turn turns one sample of n pixels of c elements.
func turn(k kernel.Kernel, to Order, dst, src []byte, n, c, size int) {
	s := Spec{N: 1, H: 1, W: n, C: c, DType: map[int]DType{1: Uint8, 2: BFloat16, 4: Float32}[size], Order: 1 - to}
	Turn(dst[:n*c*size], to, src[:n*c*size], s, k)
}

// checkTurn turns pixels into planes and back, at the edges of memory, and two samples at once.
func checkTurn(t *testing.T, k kernel.Kernel, h, w, c, size int, src []byte) {
	t.Helper()
	n, rng := len(src), rand.New(rand.NewPCG(uint64(len(src)), uint64(w)))
	from, turned, back := edge(t, 0, n, rng), edge(t, 1, n, rng), edge(t, 2, n, rng)
	copy(from, src)
	turn(k, NCHW, turned, from, h*w, c, size)
	for i := range n {
		element, b := i/size, i%size
		if at := (element%c*h*w+element/c)*size + b; turned[at] != src[i] {
			t.Fatalf("%s: %dx%dx%d of %d: byte %d is wrong", k, h, w, c, size, at)
		}
	}
	turn(k, NHWC, back, turned, h*w, c, size)
	if !bytes.Equal(back, src) {
		t.Fatalf("%s: %dx%dx%d of %d: not the same after turning twice", k, h, w, c, size)
	}
	s := Spec{N: 2, H: h, W: w, C: c, DType: map[int]DType{1: Uint8, 2: Float16, 4: Float32}[size]}
	two, planes := slices.Repeat(src, 2), slices.Repeat(turned, 2)
	for to, want := range map[Order][]byte{NHWC: two, NCHW: planes} {
		got := make([]byte, 2*n)
		if Turn(got, to, two, s, k); !bytes.Equal(got, want) {
			t.Fatalf("%s: two of %dx%dx%d of %d to %v: wrong", k, h, w, c, size, to)
		}
	}
}
