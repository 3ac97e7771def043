package layout

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/batchfs/batchfs/internal/option"
)

// DType is the type of a tensor's elements.
type DType uint8

const (
	Uint8 DType = iota
	Float16
	BFloat16
	Float32
	Int32 // for masks only
)

var dtypes = [...]ArrayType{
	Uint8: typeUint8, Float16: typeFloat16, BFloat16: typeBFloat16, Float32: typeFloat32, Int32: typeInt32,
}

func (t DType) elements() ArrayType {
	if int(t) < len(dtypes) {
		return dtypes[t]
	}
	return ArrayType{name: "unknown"}
}

// String is the type's name as users write it: uint8, float16, bfloat16, float32.
func (t DType) String() string { return t.elements().name }

// Set implements [flag.Value].
func (t *DType) Set(name string) error {
	return option.Named(t, "dtype", dtypeNames, name)
}

// dtypeNames are the names of the types that images can have.
var dtypeNames = []string{Uint8: typeUint8.name, Float16: typeFloat16.name, BFloat16: typeBFloat16.name, Float32: typeFloat32.name}

// Size is the size of one element in bytes, 0 for an unknown type.
func (t DType) Size() int { return t.elements().size }

// Order is the order of a tensor's axes.
type Order uint8

const (
	NHWC Order = iota // channels interleaved
	NCHW              // channels in planes
)

var orders = []string{"nhwc", "nchw"}

// String is "nhwc" or "nchw".
func (o Order) String() string { return orders[o] }

// Set implements [flag.Value].
func (o *Order) Set(name string) error {
	return option.Named(o, "layout", orders, name)
}

// errTooBig means that a batch would take more bytes than a file can have.
var errTooBig = errors.New("larger than a file can be")

const (
	// maxTensor limits the size of a Spec, so that an int64 has room for the header of any form
	// and for the arithmetic of contact sheets.
	maxTensor = 1 << 62
	maxSlots  = 1 << 48
)

// Spec describes the tensor of one batch: N samples of H x W pixels with C channels. N may be 0;
// H and W may then be 0 too. Create it only with NewSpec, and treat its fields as read-only. No
// product of them overflows unless Err returns an error.
type Spec struct {
	N, H, W, C int
	DType      DType
	Order      Order
	Targets    Targets // of the form in question, or of a .safetensors file

	err error // why the batch cannot exist
}

// NewSpec makes a Spec of dimensions of at least 0. The error is errTooBig if the batch, in any of
// its forms, has more bytes than a file can have. Even then the Spec can be used to show its shape
// and sizes (Size), and Err returns the error.
func NewSpec(n, h, w, c int, dtype DType, order Order) (Spec, error) {
	s := Spec{N: n, H: h, W: w, C: c, DType: dtype, Order: order}
	if min(n, h, w, c) < 0 || dtype.Size() == 0 {
		s.err = fmt.Errorf("no batch has %d samples of %dx%d pixels with %d channels of type %s", n, h, w, c, dtype)
		return s, s.err
	}
	// Also refuse an empty batch if a single sample would be too large.
	if int64(n) > maxSlots || product(max(n, 1), h, w, c, dtype.Size()) > maxTensor {
		s.err = fmt.Errorf("%d samples of %dx%d pixels with %d channels of type %s: %w", n, h, w, c, dtype, errTooBig)
	}
	return s, s.err
}

// product multiplies, up to maxTensor+1, which represents anything larger. Factors of 0 count as
// 1, so that no partial product is larger than the whole.
func product(factors ...int) uint64 {
	all := uint64(1)
	for _, f := range factors {
		high, low := bits.Mul64(all, uint64(max(f, 1)))
		if high > 0 || low > maxTensor {
			return maxTensor + 1
		}
		all = low
	}
	return all
}

// Err is nil for a batch that can exist, else the error that NewSpec returned.
func (s Spec) Err() error { return s.err }

// In returns the same batch with its axes in another order.
func (s Spec) In(o Order) Spec {
	s.Order = o
	return s
}

// Shape is the tensor's shape in its own order.
func (s Spec) Shape() [4]int {
	if s.Order == NCHW {
		return [4]int{s.N, s.C, s.H, s.W}
	}
	return [4]int{s.N, s.H, s.W, s.C}
}

// SampleBytes is the size of one sample's pixels; math.MaxInt64 if the batch cannot exist.
func (s Spec) SampleBytes() int64 {
	if s.err != nil {
		return math.MaxInt64
	}
	return int64(s.H) * int64(s.W) * int64(s.C) * int64(s.DType.Size())
}

// Bytes is the size of the tensor, without any header; math.MaxInt64 if the batch cannot exist.
func (s Spec) Bytes() int64 {
	if s.err != nil {
		return math.MaxInt64
	}
	return int64(s.N) * s.SampleBytes()
}
