package layout

import (
	"errors"
	"fmt"
	"github.com/batchfs/batchfs/internal/option"
	"math"
	"testing"
)

// imagenet is the meaning of --normalize imagenet, in 0..255 units.
var imagenet = Normalization{Mean: []float64{123.675, 116.28, 103.53}, Std: []float64{58.395, 57.12, 57.375}}

var floatTypes = []DType{Float16, BFloat16, Float32}

// Means and stds of every kind: common ones, ties, cancellation, numbers that no format can
// represent.
var oddNorms = [][2]float64{
	{0, 1}, {0, 255}, {127.5, 127.5}, {128, 128}, {123.675, 58.395}, {116.28, 57.12}, {103.53, 57.375}, {0.485 * 255, 0.229 * 255},
	{123.68, 58.393}, {116.779, 57.12}, {103.939, 57.375}, {-3, 0.25}, {1.0 / 3, 1.0 / 3}, {255, math.Pi}, {254.99999, 1e-5},
	{128 + 1e-13, 1}, {128, 1 << 24}, {128, 1 << 30}, {100, 3e-3}, {100, 0.003906}, {100, 3e-37}, {100, 1e-300}, {0, 5e-324}, {1e300, 1},
	{-1e300, 1e-300}, {5e-324, 1}, {5e-324, 5e-324}, {7, 1e40}, {7, 1e46}, {7, 1e300}, {math.MaxFloat64, math.MaxFloat64}, {130.0001, 0x1p120},
	{127, 0x1p17}, {127, 0x1p21}, {127, 0x1p131}, {127, 0x1p139}, {127, 0x1p-120}, {16777217, 1}, {0.1, 0.1}, {1, 4080.0000001},
}

func FuzzElements(f *testing.F) {
	f.Add(uint8(0), uint8(1), 123.675, 58.395)
	f.Add(uint8(255), uint8(2), -1e-310, 1e-310)
	f.Fuzz(func(t *testing.T, v, d uint8, mean, std float64) {
		dtype := floatTypes[d%3]
		c, err := NewConverter(dtype, 1, Normalization{Mean: []float64{mean}, Std: []float64{std}})
		if bad := !finite(mean) || !finite(std) || std <= 0; bad != (err != nil) {
			t.Fatalf("mean %v, std %v: %v", mean, std, err)
		}
		if err != nil {
			return
		}
		if got, want := c.bits[0][v], referenceElement(dtype, v, mean, std); got != want {
			t.Errorf("%v: (%d-%v)/%v is %#x, want %#x", dtype, v, mean, std, got, want)
		}
	})
}

func TestOptionErrors(t *testing.T) {
	three := []float64{1, 2, 3}
	for _, c := range []struct {
		d        DType
		channels int
		n        Normalization
		field    string
		want     string
	}{
		{Float32, 3, Normalization{Mean: three[:1]}, "mean", "mean must be 3 values, one for each channel, not 1"},
		{Float16, 1, Normalization{Std: three}, "std", "std must be one value, for the one channel, not 3"},
		{Float32, 3, Normalization{Mean: []float64{0, math.NaN(), 0}}, "mean", "mean must be finite for every channel, not NaN"},
		{Float32, 3, Normalization{Mean: []float64{0, 0, math.Inf(-1)}}, "mean", "mean must be finite for every channel, not -Inf"},
		{BFloat16, 3, Normalization{Std: []float64{1, 0, 1}}, "std", "std must be greater than 0 and finite for every channel, not 0"},
		{BFloat16, 3, Normalization{Std: []float64{1, 1, -2.5}}, "std", "std must be greater than 0 and finite for every channel, not -2.5"},
		{BFloat16, 3, Normalization{Std: []float64{math.Inf(1), 1, 1}}, "std", "std must be greater than 0 and finite for every channel, not +Inf"},
		{BFloat16, 3, Normalization{Std: []float64{math.NaN(), 1, 1}}, "std", "std must be greater than 0 and finite for every channel, not NaN"},
		{Uint8, 3, Normalization{Mean: three}, "dtype", "dtype must be float16, bfloat16 or float32 where there is a mean or a std, since normalising needs a float dtype, not uint8"},
		{Uint8, 1, Normalization{Std: three[:1]}, "dtype", "dtype must be float16, bfloat16 or float32 where there is a mean or a std, since normalising needs a float dtype, not uint8"},
		{Float32, 4, Normalization{}, "channels", "channels must be 1 or 3, not 4"},
		{9, 3, Normalization{}, "dtype", "dtype must be uint8, float16, bfloat16 or float32, not 9"},
	} {
		conv, err := NewConverter(c.d, c.channels, c.n)
		var bad *option.Error
		if !errors.As(err, &bad) || bad.Field != c.field || err.Error() != c.want || conv != nil {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

func ExampleNewConverter() {
	_, err := NewConverter(Float16, 3, Normalization{Mean: []float64{124, 116}})
	fmt.Println(err)
	// Output: mean must be 3 values, one for each channel, not 2
}
