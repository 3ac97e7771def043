//go:build cgo && static

package decode

// The archives as installed by the -dev packages of Debian and Ubuntu; libc and libm stay
// shared.

// #cgo LDFLAGS: -l:libjpeg.a -l:libpng16.a -l:libdeflate.a -l:libwebp.a -l:libz.a -lm
import "C"
