package layout

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/batchfs/batchfs/internal/kernel"
)

// BenchmarkWriter writes one 224x224 picture into 64 slots of a batch in turn, since in practice
// a slot is never written again while it is still in the cache.
func BenchmarkWriter(b *testing.B) {
	const side, slots = 224, 64
	row := randomBytes(rand.New(rand.NewPCG(1, 2)), side*side*3)
	for _, k := range kernels() {
		for d := Uint8; d <= Float32; d++ {
			for _, o := range []Order{NHWC, NCHW} {
				for _, flip := range []bool{false, true} {
					b.Run(fmt.Sprintf("%s/%v/%v/flip=%v", k, d, o, flip), func(b *testing.B) {
						benchmarkWriter(b, k, Spec{N: slots, H: side, W: side, C: 3, DType: d, Order: o}, row, flip)
					})
				}
			}
		}
	}
}

func benchmarkWriter(b *testing.B, k kernel.Kernel, s Spec, pixels []byte, flip bool) {
	var n Normalization
	if s.DType != Uint8 {
		n = imagenet
	}
	c, err := NewConverter(s.DType, s.C, n)
	if err != nil {
		b.Fatal(err)
	}
	w := NewWriter(c, k)
	defer w.Close()
	batch := make([]byte, s.Bytes())
	each := int(s.SampleBytes())
	b.SetBytes(int64(each))
	for i := 0; b.Loop(); i++ {
		at := i % s.N * each
		w.Begin(batch[at:at+each], s, s.H, s.W, flip, 0)
		w.putRows(0, s.H, pixels, s.W*s.C)
		w.End()
	}
}
