//go:build cgo

package decode

const goOnly = false

// otherPaths are the PNG paths that a Decoder does not choose itself: libpng for everything, and
// the fast path without vector instructions.
func otherPaths() []codecSet {
	with := func(how pngPath) func(Options) *Decoder {
		return func(o Options) *Decoder {
			d := NewDecoder(o)
			d.kept.how = how
			return d
		}
	}
	return []codecSet{
		{name: "libpng", make: with(pngLibrary), only: PNG, light: true},
		{name: "portable", make: with(pngPortable), only: PNG, light: true},
	}
}
