//go:build cgo

package decode

const goOnly = false

// otherPaths are what a Decoder does not choose itself: for PNG libpng for everything and the
// fast path without vector instructions, for JPEG all other kernels.
func otherPaths() []codecSet {
	with := func(how pngPath) func(Options) *Decoder {
		return func(o Options) *Decoder {
			d := NewDecoder(o)
			d.kept.how = how
			return d
		}
	}
	all := []codecSet{
		{name: "libpng", make: with(pngLibrary), only: PNG, light: true},
		{name: "portable", make: with(pngPortable), only: PNG, light: true},
	}
	for _, k := range Kernels() {
		make := func(o Options) *Decoder {
			o.Kernel = k
			return NewDecoder(o)
		}
		all = append(all, codecSet{name: "kernel-" + k.String(), make: make, only: JPEG, light: k != LibJPEG})
		if k == Portable || k == AVX2 {
			all = append(all, codecSet{name: "packed-" + k.String(), make: make, only: Packed, light: true})
		}
	}
	return all
}
