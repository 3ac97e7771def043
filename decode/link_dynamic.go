//go:build cgo && !static

package decode

// #cgo LDFLAGS: -ljpeg -lpng16 -lwebp -lz -lm
import "C"
