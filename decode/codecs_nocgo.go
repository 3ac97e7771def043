//go:build !cgo

package decode

import "runtime"

// nativeCodecs returns this build's codecs for one Decoder.
func nativeCodecs() [numFormats]Codec { return goCodecs() }

// nativeScratch returns 0: this build holds nothing between images.
func nativeScratch(h Header, c Color, orientation uint8) int64 { return 0 }

// Version names the decoders whose bytes a Decoder delivers.
func Version() string { return runtime.Version() + " image" }

func swapBGR(to, from []byte) { swapPixels(to, from, 3) }

// goScratch estimates the memory that one of Go's decoders leaves to the garbage collector, at so
// many bytes per pixel; block is the multiple to which sides are rounded up.
func goScratch(width, height, block int, bytes int64) int64 {
	const fixed = 1 << 20
	return fixed + bytes*(int64(width)+int64(block))*(int64(height)+int64(block))
}

// jpegScratch counts the components' samples, an interleaved copy of RGB and CMYK, and a
// progressive image's 32-bit coefficients.
func jpegScratch(f *jpegFrame) int64 {
	bytes := int64(2 * f.components)
	if f.multiScan {
		bytes += int64(4 * f.components)
	}
	return goScratch(f.width, f.height, 32, bytes)
}

// pngScratch counts an image.Image of the stored kind and, if interlaced, its passes.
func pngScratch(width, height, bits int, interlaced bool) int64 {
	pixel := int64(1)
	switch {
	case bits > 32:
		pixel = 8
	case bits > 8:
		pixel = 4
	}
	if interlaced {
		pixel *= 2
	}
	return goScratch(width, height, 1, pixel)
}

// webpScratch counts planes, or NRGBA and the images of its transforms.
func webpScratch(width, height int, lossless bool) int64 {
	if lossless {
		return goScratch(width, height, 16, 9)
	}
	return goScratch(width, height, 16, 2)
}
