// Package layout defines the file formats of a batch: which forms exist, their names, their
// sizes before any pixel is decoded, and the bytes around the pixels. It also converts pixels to
// elements of the tensor and puts them in their places.
//
// The files are arithmetic on a [Spec]. The package decodes nothing, opens nothing, keeps
// nothing, and allocates nothing that grows with the pixels: the caller owns the memory of the
// batch, and layout writes headers, elements, turned pixels and contact sheets into it in place.
//
// Before decoding, [Size] gives the size that stat reports, and [DataOffset] the place where a
// worker must put its pixels. Rows of pixels then pass through a [Writer] into their slot. After
// that, [PutHeader] completes a .npy or .safetensors file around the pixels, [Turn] makes the
// other order of axes, and [Converter.PutSheet] draws the contact sheet. The small arrays
// (labels, ids, sizes) come from [AppendNPY] and need no pixels.
//
// Two rules are tested as laws: the size depends on the Spec alone, and the pixels of a tensor
// form start at byte 0 or at a multiple of [Page], so that they can be mapped, and registered
// with a GPU, in place.
//
// # Elements
//
// Pixels come as rows of 8 bits per channel. Mirroring, normalisation, the dtype and the order
// of axes are one step, done while a row is in the first-level cache, and the memory of the
// batch is written once. A [Converter] defines the elements: it is a table of the 256 values of
// each channel, computed with exact arithmetic. Everything else is for speed and changes no bit.
//
// With C in the build, the best kernel for the processor writes a Writer's rows, and other C
// code can hand rows to it without going through Go ([Writer.Native]). Bytes are shuffled 16 at
// a time. Floats are not looked up but computed, 8 at a time: (v-mean)/std as one or two
// multiply-adds in float32. That is not exact, but it has only 256 possible arguments, and a
// Writer tries all of them when it is created. If a formula differs from the table in one bit,
// the Writer uses the next more accurate one, and finally the table. A kernel that this build or
// this processor lacks is replaced by the next slower one; the slowest, kernel.None, needs no C.
// All produce the same bytes.
package layout

// Page is the alignment of pixels in files that have a header.
const Page = 4096
