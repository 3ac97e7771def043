package resample

import (
	"fmt"
	"testing"

	"github.com/batchfs/batchfs/internal/rowtest"
)

// BenchmarkResize resizes one image of 500x375, from the choice to the last row, with every kernel,
// as is typical for training.
func BenchmarkResize(b *testing.B) {
	src, scratch := pattern(375, 500, 3), make([]byte, 1<<20)
	var sink Sink = nowhere{}
	if rowtest.InC {
		sink = rowtest.NewSink(b, 224, 224*3)
	}
	for _, mode := range []Mode{Stretch, NotSmaller, RandomResizedCrop} {
		o := randomCrop(1)
		o.Mode = mode
		for _, k := range Kernels() {
			b.Run(fmt.Sprintf("%v/%v", mode, k), func(b *testing.B) {
				sample := int64(0)
				for b.Loop() {
					sample++
					if err := Resize(sink, src, o.Choose(0, sample, src.Height, src.Width), scratch, k); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
