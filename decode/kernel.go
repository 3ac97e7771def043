package decode

import (
	"slices"
	"sync"

	"github.com/batchfs/batchfs/internal/kernel"
)

// A Kernel says what decodes: which vector instructions our own code uses, or whether it is used at
// all. All kernels but Pure produce the same bytes; see the package comment.
type Kernel = kernel.Kernel

const (
	// Fastest is AVX512 or AVX2 if the processor has them. Otherwise libjpeg-turbo decodes JPEGs,
	// since it has vector code for more processors than Portable.
	Fastest  = kernel.Fastest
	Pure     = kernel.Pure // Go's own decoders, which are all that a build without cgo has
	LibJPEG  = kernel.None // libjpeg-turbo decodes every JPEG, and libpng every PNG
	Portable = kernel.Portable
	AVX2     = kernel.AVX2
	AVX512   = kernel.AVX512
)

// Kernels returns the usable kernels other than Fastest and Pure.
func Kernels() []Kernel { return slices.Clone(running()) }

var running = sync.OnceValue(func() []Kernel {
	all := []Kernel{LibJPEG, Portable, AVX2, AVX512}
	return slices.DeleteFunc(all, func(k Kernel) bool { return k != LibJPEG && !kernelRuns(k) })
})

// chosen is the kernel that k stands for.
func chosen(k Kernel) Kernel {
	best := min(k, LibJPEG)
	for _, here := range running() {
		if k == Fastest && here > Portable || here <= k {
			best = here
		}
	}
	return best
}

// JPEGs counts JPEGs by their decoder: our own, or libjpeg-turbo, by reason.
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
