//go:build cgo && !static

package decode

// #cgo LDFLAGS: -ljpeg -lpng16 -ldeflate -lwebp -lz -lm
import "C"
