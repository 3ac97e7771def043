// Package kernel names the implementations of what is computed for each pixel. All make the same
// bytes, so there is no reason to choose any but the fastest, except for tests and measurements.
package kernel

// A Kernel is an implementation. Not every package has all of them: one that it lacks stands for
// the next slower one.
type Kernel uint8

const (
	Fastest  Kernel = iota // of this build, on this processor
	Pure                   // Go alone, as in a build without C; what is always computed in Go is None
	None                   // nothing of our own in C: it is computed in Go, or by a library
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

// AtMost is the one that k stands for where last is the fastest that can be used.
func (k Kernel) AtMost(last Kernel) Kernel {
	if k == Fastest {
		return last
	}
	return max(None, min(k, last))
}
