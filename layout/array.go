package layout

import (
	"fmt"
	"slices"
	"strings"
)

// An ArrayType is the type of an array's elements; see parseArrayType.
type ArrayType struct {
	name, numpy, safetensors string
	size                     int
}

// Types of a batch's other tensors. NumPy has no bfloat16, so it is not a type of arrays: "<V2" is
// what ml_dtypes writes and reads.
var (
	typeBool     = ArrayType{"bool", "|b1", "BOOL", 1}
	typeUint8    = ArrayType{"uint8", "|u1", "U8", 1}
	typeFloat16  = ArrayType{"float16", "<f2", "F16", 2}
	typeBFloat16 = ArrayType{"bfloat16", "<V2", "BF16", 2}
	typeInt32    = ArrayType{"int32", "<i4", "I32", 4}
	typeFloat32  = ArrayType{"float32", "<f4", "F32", 4}
	typeInt64    = ArrayType{"int64", "<i8", "I64", 8}
)

var arrayTypes = []ArrayType{
	typeBool,
	{"int8", "|i1", "I8", 1},
	typeUint8,
	{"int16", "<i2", "I16", 2},
	{"uint16", "<u2", "U16", 2},
	typeFloat16,
	typeInt32,
	{"uint32", "<u4", "U32", 4},
	typeFloat32,
	typeInt64,
	{"uint64", "<u8", "U64", 8},
	{"float64", "<f8", "F64", 8},
}

// parseArrayType finds a type by the descr of a .npy file, such as <f4.
func parseArrayType(descr string) (ArrayType, bool) {
	i := slices.IndexFunc(arrayTypes, func(t ArrayType) bool {
		order, kind := descr[:min(1, len(descr))], descr[min(1, len(descr)):]
		return t.numpy == descr || t.size == 1 && t.numpy[1:] == kind && strings.Contains("|<>=", order)
	})
	if i < 0 {
		return ArrayType{}, false
	}
	return arrayTypes[i], true
}

// String is the type's name in NumPy, such as float32.
func (t ArrayType) String() string { return t.name }

// Size is the size of an element in bytes.
func (t ArrayType) Size() int { return t.size }

// An Array is one of the arrays that each sample of a batch has.
type Array struct {
	Name   string
	Type   ArrayType
	Shape  []int // of one sample; without the first dimension if Ragged
	Ragged bool  // samples differ in the first dimension: their number of rows
	// Offsets, if Ragged, are where the rows of each slot begin, and where the last slot's end: N+1
	// numbers, or nil if no particular batch is meant.
	Offsets []int64
}

// String describes the array for users, such as "track int16 [*, 3]".
func (a *Array) String() string {
	text := a.Name + " " + a.Type.name + " ["
	if a.Ragged && len(a.Shape) > 0 {
		text += "*, "
	} else if a.Ragged {
		text += "*"
	}
	return string(appendInts([]byte(text), ", ", a.Shape...)) + "]"
}

// shape is the shape of all n slots together.
func (a *Array) shape(n int) []int {
	if a.Ragged {
		if n = 0; len(a.Offsets) > 0 {
			n = int(a.Offsets[len(a.Offsets)-1])
		}
	}
	return append([]int{n}, a.Shape...)
}

// WithTargets returns the batch with targets. The Spec has an Err if the arrays make it too large.
func (s Spec) WithTargets(t Targets) Spec {
	s.Targets = t
	all := uint64(max(0, s.N))
	if s.err == nil {
		all += uint64(s.Bytes())
	}
	for _, a := range t.further() {
		all += product(append(a.shape(s.N), a.Type.size)...)
		if all > maxTensor && s.err == nil {
			s.err = fmt.Errorf("%d samples with %s: %w", s.N, a.String(), errTooBig)
		}
		all = min(all, maxTensor+1)
	}
	return s
}
