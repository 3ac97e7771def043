// Package layout knows how a batch looks as a file: which forms exist and what
// they are called, how large each is before a single pixel has been decoded, and
// which bytes stand around the pixels. And it knows how a pixel becomes an element
// of the tensor, and where that element stands.
//
// The files are arithmetic on a [Spec]. The package decodes nothing, opens nothing,
// keeps nothing, and allocates nothing that grows with the pixels: the caller owns
// the memory of the batch, and layout writes headers, elements, turned pixels and
// contact sheets into it in place.
//
// In the flow it stands at both ends. Before the decode, [Size] tells what stat
// reports, and [DataOffset] where a worker has to put its pixels. Rows of pixels
// then pass through a [Writer] into their slot. After that, [PutHeader] completes a
// .npy or .safetensors file around the pixels that are already there, [Turn] makes
// the other order of axes, and [Converter.PutSheet] draws the contact sheet.
// The small arrays (labels, ids, sizes) come from [AppendLabels] and its
// neighbours and need no pixels at all.
//
// Two promises hold everything together and are tested as laws: the size depends
// on the Spec alone, and the pixels of a tensor form start at byte 0 or at a
// multiple of [Page], so that they can be mapped, and registered with a GPU, in
// place.
//
// # Elements
//
// Pixels come as rows of 8 bits a channel. Mirroring, normalisation, the dtype and
// the order of axes are one step, done while a row is in the first-level cache, and
// the memory of the batch is written once. What an element is, a [Converter] says:
// a table of the 256 values of each channel, made with exact arithmetic. Everything
// else is about speed and changes no bit.
//
// Where the build has C, a Writer's rows are written by the best kernel that the
// processor has, and other C code can hand rows to it without coming back to Go
// ([Writer.Native]). Bytes are shuffled 16 at a time. Floats are not looked up but
// computed, 8 at a time: (v-mean)/std as one or two multiply-adds in float32. That
// is no exact arithmetic, but it has 256 possible arguments, and a Writer tries
// them all when it is made. A formula that misses the table in one bit is not used:
// the next better one is, and in the end the table.
// [Kernels] lists what there is; "go" needs no C and gives the same bytes.
package layout

// Page is the alignment of pixels in files that have a header.
const Page = 4096
