//go:build !cgo

package decode

import "runtime"

// nativeCodecs returns this build's codecs for one Decoder.
func nativeCodecs() [numFormats]Codec { return goCodecs() }

// nativeScratch returns 0: this build holds nothing between images.
func nativeScratch(h Header, c Color, orientation uint8) int64 { return 0 }

// Version names the decoders whose bytes a Decoder delivers.
func Version() string { return runtime.Version() + " image" }

// The estimates below are of the memory that Go's decoders leave to the garbage collector.

// jpegScratch counts the components' samples and a progressive image's 32-bit coefficients.
func jpegScratch(f *jpegFrame) int64 {
	const fixed = 64 << 10
	n := int64(fixed) + 16*int64(f.width)
	for i := range f.components {
		across, down := f.blocks(i)
		n += across * down * 64
		if f.multiScan {
			n += across * down * 256
		}
	}
	if f.components == 4 || f.components == 3 {
		n += 4 * int64(f.width) * int64(f.height) // an interleaved copy of RGB and CMYK
	}
	return n
}

// pngScratch counts an image.Image of the stored kind and, if interlaced, one pass of it.
func pngScratch(width, height, bits int, interlaced bool) int64 {
	const fixed = 64 << 10
	pixel := int64(1)
	switch {
	case bits > 32 || bits == 48:
		pixel = 8
	case bits > 8:
		pixel = 4
	}
	n := pixel * int64(width) * int64(height)
	if interlaced {
		n += n / 2
	}
	return fixed + n + 16*int64(width)
}

// webpScratch counts planes, or NRGBA and the images of its transforms.
func webpScratch(width, height int, lossless bool) int64 {
	const fixed = 1 << 20
	pixels := (int64(width) + 15) * (int64(height) + 15)
	if lossless {
		return fixed + 9*pixels
	}
	return fixed + 2*pixels
}
