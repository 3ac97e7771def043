package layout

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// floatBatch writes a batch of random pixels as bytes and as elements of s.
func floatBatch(t testing.TB, s Spec, n Normalization) (c *Converter, floats, pixels []byte) {
	t.Helper()
	c, err := NewConverter(s.DType, s.C, n)
	if err != nil {
		t.Fatal(err)
	}
	w := NewWriter(c, 0)
	defer w.Close()
	plain := s
	plain.DType, plain.Order = Uint8, NHWC
	pixels, floats = randomBytes(rand.New(rand.NewPCG(uint64(s.W), 5)), int(plain.Bytes())), make([]byte, s.Bytes())
	from, to := int(plain.SampleBytes()), int(s.SampleBytes())
	for i := range s.N {
		w.Begin(floats[i*to:(i+1)*to], s, s.H, s.W, false, 0)
		w.PutRows(0, s.H, pixels[i*from:], s.W*s.C)
		w.End()
	}
	return c, floats, pixels
}

// The sheet of a float batch equals that of the bytes it was made from.
func TestSheetOfFloats(t *testing.T) {
	for _, d := range floatTypes {
		for _, s := range []Spec{
			{N: 3, H: 40, W: 30, C: 3}, {N: 3, H: 40, W: 30, C: 3, Order: NCHW}, {N: 2, H: 201, W: 577, C: 3},
			{N: 2, H: 300, W: 7, C: 1, Order: NCHW}, {N: 1, H: 2, W: 20000, C: 1},
		} {
			s.DType = d
			// All three types distinguish 256 values after this.
			n := Normalization{Mean: []float64{123.675, 116.28, 128}[:s.C], Std: []float64{58.395, 57.12, 128}[:s.C]}
			c, floats, pixels := floatBatch(t, s, n)
			got, want := bytes.Repeat([]byte{0xAA}, int(Size(PNG, s))), make([]byte, Size(PNG, s))
			c.PutSheet(got, s, floats, s.N-1, nil)
			s.DType, s.Order = Uint8, NHWC
			if putBytes(want, s, pixels, s.N-1); !bytes.Equal(got, want) {
				t.Errorf("%v %+v: another picture", d, s)
			}
		}
	}
}

// The size of the sheet depends on neither the pixels nor their type nor their order.
func TestSheetSizeOfFloats(t *testing.T) {
	for _, s := range specs() {
		plain := s
		plain.DType, plain.Order = Uint8, NHWC
		if Size(PNG, s) != Size(PNG, plain) {
			t.Errorf("%+v: %d bytes, %d for uint8", s, Size(PNG, s), Size(PNG, plain))
		}
	}
}

func TestSheetOfOthers(t *testing.T) {
	s := Spec{N: 1, H: 4, W: 4, C: 3, DType: Float32}
	c, floats, _ := floatBatch(t, s, imagenet)
	file := make([]byte, Size(PNG, s))
	for _, other := range []Spec{{N: 1, H: 4, W: 4, C: 3, DType: Float16}, {N: 1, H: 4, W: 12, C: 1, DType: Float32}} {
		if !panics(func() { c.PutSheet(file, other, floats, 1, nil) }) {
			t.Errorf("%+v: drawn", other)
		}
	}
}
