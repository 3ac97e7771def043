package layout

// DType is the type of a tensor's elements.
type DType uint8

const (
	Uint8 DType = iota
	Float16
	BFloat16
	Float32
)

// dtypes holds what the formats call each type. NumPy has no bfloat16; "<V2" is
// what ml_dtypes writes, and reads back.
var dtypes = [...]struct {
	name, numpy, safetensors string
	size                     int
}{
	Uint8:    {"uint8", "|u1", "U8", 1},
	Float16:  {"float16", "<f2", "F16", 2},
	BFloat16: {"bfloat16", "<V2", "BF16", 2},
	Float32:  {"float32", "<f4", "F32", 4},
}

// String is the type's name as users write it: uint8, float16, bfloat16, float32.
func (t DType) String() string {
	if int(t) < len(dtypes) {
		return dtypes[t].name
	}
	return "unknown"
}

// Size is the size of one element in bytes, 0 for an unknown type.
func (t DType) Size() int {
	if int(t) < len(dtypes) {
		return dtypes[t].size
	}
	return 0
}

// ParseDType is the inverse of String.
func ParseDType(name string) (DType, bool) {
	for t := range dtypes {
		if dtypes[t].name == name {
			return DType(t), true
		}
	}
	return 0, false
}

// Order is the order of a tensor's axes.
type Order uint8

const (
	NHWC Order = iota // channels interleaved
	NCHW              // channels in planes
)

// String is "nhwc" or "nchw".
func (o Order) String() string {
	if o == NCHW {
		return "nchw"
	}
	return "nhwc"
}

// ParseOrder is the inverse of String.
func ParseOrder(name string) (Order, bool) {
	switch name {
	case "nhwc":
		return NHWC, true
	case "nchw":
		return NCHW, true
	}
	return 0, false
}

// Spec describes the tensor of one batch: N samples of H x W pixels with C
// channels. N may be 0; H and W may then be 0 too.
type Spec struct {
	N, H, W, C int
	DType      DType
	Order      Order
}

// Shape is the tensor's shape in its own order.
func (s Spec) Shape() [4]int {
	if s.Order == NCHW {
		return [4]int{s.N, s.C, s.H, s.W}
	}
	return [4]int{s.N, s.H, s.W, s.C}
}

// SampleBytes is the size of one sample's pixels.
func (s Spec) SampleBytes() int64 {
	return int64(s.H) * int64(s.W) * int64(s.C) * int64(s.DType.Size())
}

// Bytes is the size of the tensor, without any header.
func (s Spec) Bytes() int64 { return int64(s.N) * s.SampleBytes() }
