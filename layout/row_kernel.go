package layout

// A Kernel is one implementation of the conversion. The zero value is the fastest one of this
// build on this processor. All produce the same bytes, so others are for tests and measurements.
type Kernel int32

const (
	_        Kernel = iota
	goKernel        // no C
	portable        // plain C
	ssse3           // bytes shuffled 16 at a time
	avx2            // and elements computed 8 at a time, with FMA and F16C
)

// Kernels lists the kernels that this build has for this processor, slowest first; the first is
// always Go's.
func Kernels() (all []Kernel) {
	for k := goKernel; k <= fastest(); k++ {
		all = append(all, k)
	}
	return all
}

// String names the kernel.
func (k Kernel) String() string {
	return [...]string{"fastest", "go", "portable", "ssse3", "avx2"}[k]
}

// chosen replaces the zero value by the fastest kernel.
func (k Kernel) chosen() Kernel {
	if k == 0 {
		return fastest()
	}
	return k
}
