// Package kernel names the implementations of per-pixel computations. All produce the same bytes,
// so there is no reason to choose any but the fastest, except for tests and measurements.
package kernel

// A Kernel is an implementation. If a package lacks one, the next slower one takes its place.
type Kernel uint8

const (
	Fastest  Kernel = iota // of this build, on this processor
	Pure                   // Go only, as in a build without C; for computations that are always in Go, it means None
	None                   // no C code of our own: computed in Go, or by a library
	Portable               // C without vector instructions
	SSSE3
	AVX2
	AVX512
)

var names = [...]string{"fastest", "pure", "none", "portable", "ssse3", "avx2", "avx512"}

// String names the kernel.
func (k Kernel) String() string { return names[k] }

// UpTo lists the kernels from None to the last one that can be used.
func UpTo(last Kernel) (all []Kernel) {
	for k := None; k <= last; k++ {
		all = append(all, k)
	}
	return all
}

// AtMost is the kernel that k stands for if last is the fastest usable one.
func (k Kernel) AtMost(last Kernel) Kernel {
	if k == Fastest {
		return last
	}
	return max(None, min(k, last))
}
