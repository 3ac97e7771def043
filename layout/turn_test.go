package layout

import (
	"bytes"
	"fmt"
	"math/rand/v2"
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

// checkTurn turns pixels into planes and back, between guards.
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
	for _, b := range [][]byte{turned, back} {
		if b[0] != 0x55 || b[n+1] != 0x55 {
			t.Fatalf("%s: %dx%dx%d of %d: wrote outside", k, h, w, c, size)
		}
	}
}

// Turn of a batch equals what a Writer writes in the other order.
func TestTurnBatch(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	for d := Uint8; d <= Float32; d++ {
		for _, channels := range []int{1, 3} {
			s := Spec{N: 3, H: 6, W: 19, C: channels, DType: d}
			planar := s
			planar.Order = NCHW
			c, err := NewConverter(d, channels, normFor(s))
			if err != nil {
				t.Fatal(err)
			}
			w := NewWriter(c, 0)
			defer w.Close()
			a, b, got := make([]byte, s.Bytes()), make([]byte, s.Bytes()), make([]byte, s.Bytes())
			each := int(s.SampleBytes())
			for i := range s.N {
				pixels := randomBytes(rng, 5*17*channels)
				for out, spec := range map[*[]byte]Spec{&a: s, &b: planar} {
					w.Begin((*out)[i*each:(i+1)*each], spec, 5, 17, i == 1, 33)
					w.PutRows(0, 5, pixels, 17*channels)
					w.End()
				}
			}
			for _, c := range []struct {
				to   Order
				src  []byte
				from Spec
				want []byte
			}{{NCHW, a, s, b}, {NHWC, b, planar, a}, {NHWC, a, s, a}, {NCHW, b, planar, b}} {
				clear(got)
				if Turn(got, c.to, c.src, c.from, 0); !bytes.Equal(got, c.want) {
					t.Errorf("%v to %v: wrong", c.from, c.to)
				}
			}
		}
	}
	Turn(nil, NCHW, nil, Spec{C: 3}, 0) // no samples, nothing to do
}

func TestTurnSizesAllocateNothing(t *testing.T) {
	a, b := make([]byte, 1600), make([]byte, 1600)
	for _, k := range Kernels() {
		if n := testing.AllocsPerRun(20, func() {
			turn(k, NCHW, a, b, 100, 3, 4)
			turn(k, NHWC, b, a, 100, 3, 2)
			turn(k, NCHW, a, b, 100, 4, 4)
			turn(k, NHWC, b, a, 100, 4, 2)
		}); n != 0 {
			t.Errorf("%s: %v allocations", k, n)
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
