package decode

import "slices"

// A Kernel is an implementation of our own JPEG decoder. All produce the same bytes, which
// are also those of libjpeg-turbo, so there is no reason to choose any but the fastest, except
// for tests and measurements.
type Kernel uint8

const (
	// Fastest is AVX512 or AVX2 if the processor has them, or else LibJPEG, which has vector
	// code for more processors than Portable.
	Fastest  Kernel = iota
	LibJPEG         // libjpeg-turbo decodes every JPEG
	Portable        // C without vector instructions
	AVX2
	AVX512
)

var kernelNames = [...]string{"fastest", "libjpeg", "portable", "avx2", "avx512"}

// String names the kernel.
func (k Kernel) String() string { return kernelNames[k] }

// Kernels returns those that can be used here, apart from Fastest.
func Kernels() []Kernel {
	all := []Kernel{LibJPEG, Portable, AVX2, AVX512}
	return slices.DeleteFunc(all, func(k Kernel) bool { return k != LibJPEG && !kernelRuns(k) })
}

func (k Kernel) chosen() Kernel {
	if k != Fastest {
		return k
	}
	for _, k := range []Kernel{AVX512, AVX2} {
		if kernelRuns(k) {
			return k
		}
	}
	return LibJPEG
}

// JPEGs counts JPEGs by what decoded them: our own decoder, or libjpeg-turbo for one of the other
// reasons.
type JPEGs struct {
	Baseline int64 `json:"baseline"` // by our own decoder, baseline and progressive ones
	Kind     int64 `json:"kind"`     // arithmetic-coded, of four components, or sequential in several scans
	Sampling int64 `json:"sampling"` // with chroma sampled in a rare way
	Header   int64 `json:"header"`   // with an unusual or damaged header
	Data     int64 `json:"data"`     // with an anomaly in the entropy-coded data or in the order of scans
}

// All is the number of JPEGs.
func (a JPEGs) All() int64 { return a.Baseline + a.Kind + a.Sampling + a.Header + a.Data }

// Plus returns the sum of two counts.
func (a JPEGs) Plus(b JPEGs) JPEGs {
	return JPEGs{
		a.Baseline + b.Baseline, a.Kind + b.Kind, a.Sampling + b.Sampling,
		a.Header + b.Header, a.Data + b.Data,
	}
}
