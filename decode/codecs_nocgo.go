//go:build !cgo

package decode

import "runtime"

var nativeCodecs = goCodecs

// codecState holds options only: this build keeps nothing between images.
type codecState struct {
	kernel   Kernel
	from, to int64
	room     []byte
}

func (*codecState) size() int64 { return 0 }

func lacks(_ *codecState, _ Header, all int64) int64 { return all }

func (*codecState) free()            {}
func (*codecState) takeJPEGs() JPEGs { return JPEGs{} }

func (*codecState) setEntryPoints(EntryRule, []EntryPoint)       {}
func (*codecState) takeEntryPoints() ([]EntryPoint, EntryResult) { return nil, EntriesUnused }

func (*codecState) pair(*codecState, *[2]Task, *[2]view) bool { return false }

func entryPart([]byte, int64, EntryRule, []EntryPoint, view) (from, to int64) { return 0, 0 }

func packedSize([]byte, view, int) (Prepared, bool) { return Prepared{}, false }
func pack([]byte, []byte, Prepared) bool            { return false }

func kernelRuns(Kernel) bool { return false }

func scratch(Header) int64      { return 0 }
func valueScratch(Header) int64 { return 0 }

func storedPNG(_ *codecState, to, data []byte, _ Header, pixel int) error {
	return goStoredPNG(to, data, pixel)
}

// Version names the decoders whose bytes a Decoder delivers.
func Version() string { return runtime.Version() + " image" }

// swapBGR turns BGR pixels into RGB.
func swapBGR(to, from []byte) {
	for ; len(to) >= 3; to, from = to[3:], from[3:] {
		to[0], to[1], to[2] = from[2], from[1], from[0]
	}
}

// goScratch estimates the memory that one of Go's decoders leaves to the garbage collector, at
// bytes bytes per pixel; sides are rounded up to multiples of block.
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

// packedScratch counts a line for each plane, or the memory for restoring a JPEG and decoding it,
// as if it were progressive and without subsampling. h.least is the size of the file.
func packedScratch(kind uint8, h Header) int64 {
	if kind == kindLossless {
		return goScratch(h.Width, 1, 32, 24)
	}
	return restoringNeeds(h, h.least) + goScratch(h.Width, h.Height, 32, 18)
}

// pngScratch counts an image.Image, of up to two bytes for each one stored, and half as much for
// the passes of an interlaced one.
func pngScratch(width, height, bits int) int64 {
	return goScratch(width, height, 1, 3*max(1, int64(bits)/8))
}

// webpScratch counts planes, or NRGBA and the images of its transforms.
func webpScratch(width, height int, lossless bool) int64 {
	if lossless {
		return goScratch(width, height, 16, 9)
	}
	return goScratch(width, height, 16, 2)
}
