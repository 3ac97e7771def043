//go:build cgo

package layout

import (
	"slices"
	"testing"

	"github.com/batchfs/batchfs/internal/kernel"
	"github.com/batchfs/batchfs/internal/testkit"
)

// Which formula replaces the tables affects only speed; other tests check the bytes. A common
// normalisation that fell back to the tables would be slow, and only this test would show it.
func TestFormulas(t *testing.T) {
	const never, exactly, nearly = 0, 1, 2
	if fastest() != kernel.AVX2 {
		t.Skipf("SKIPPED: no formulas with the kernel %s", fastest())
	}
	for _, c := range []struct {
		d         DType
		mean, std float64
		want      int
	}{
		{Float32, 0, 1, nearly}, {Float32, 0, 255, exactly}, {Float32, 123.675, 58.395, exactly}, {Float32, 116.28, 57.12, exactly},
		{Float32, 103.53, 57.375, exactly}, {Float32, 127.5, 127.5, exactly}, {Float32, 0.485 * 255, 0.229 * 255, exactly},
		{Float16, 0, 1, nearly}, {Float16, 123.675, 58.395, nearly}, {Float16, 103.53, 57.375, nearly}, {Float16, 0, 255, nearly},
		{Float16, 123.68, 58.393, exactly}, {Float16, 122.7709, 68.5005, exactly},
		{BFloat16, 0, 1, nearly}, {BFloat16, 123.675, 58.395, nearly}, {BFloat16, 127.5, 127.5, nearly},
		// A tie, which only one of the two formulas rounds to even.
		{BFloat16, -0.5, 1, exactly},
		{Float32, 0, 5e-324, never}, {Float16, 1e300, 1e-300, never}, {BFloat16, 7, 1e300, never},
	} {
		for _, channels := range []int{1, 3} {
			n := Normalization{Mean: slices.Repeat([]float64{c.mean}, channels), Std: slices.Repeat([]float64{c.std}, channels)}
			conv, err := NewConverter(c.d, channels, n)
			testkit.Must(t, err)
			w := NewWriter(conv, 0)
			if got := int(w.native.ctx.formula); got != c.want {
				t.Errorf("%v, %d channels of mean %v, std %v: formula %d, want %d", c.d, channels, c.mean, c.std, got, c.want)
			}
			w.Close()
		}
	}
}
