//go:build cgo && static

package decode

// The archives, as Debian and Ubuntu install them with the -dev packages; libc and
// libm stay shared.

// #cgo LDFLAGS: -l:libjpeg.a -l:libpng16.a -l:libdeflate.a -l:libwebp.a -l:libz.a -lm
import "C"
