//go:build cgo

package decode

// otherPaths are the PNG paths that a Decoder does not choose itself: libpng for everything, and
// the fast path without vector instructions.
func otherPaths() []codecSet {
	with := func(how pngPath) func() [numFormats]Codec {
		return func() [numFormats]Codec {
			c := nativeCodecs()
			c[PNG] = &cPNG{how: how}
			return c
		}
	}
	return []codecSet{
		{name: "libpng", make: with(pngLibrary), only: PNG, light: true},
		{name: "portable", make: with(pngPortable), only: PNG, light: true},
	}
}
