// Package layout knows how a batch looks as a file: which forms exist and what
// they are called, how large each is before a single pixel has been decoded, and
// which bytes stand around the pixels.
//
// It is arithmetic on a [Spec]. It decodes nothing, opens nothing, keeps nothing,
// and allocates nothing that grows with the pixels: the caller owns the memory of
// the batch, and layout writes headers, turned pixels and contact sheets into it
// in place.
//
// In the flow it stands at both ends. Before the decode, [Size] tells what stat
// reports, and [DataOffset] where a worker has to put its pixels. After it,
// [PutHeader] completes a .npy or .safetensors file around the pixels that are
// already there, [ToNCHW] turns samples, and [PutSheet] draws the contact sheet.
// The small arrays (labels, ids, sizes) come from [AppendLabels] and its
// neighbours and need no pixels at all.
//
// Two promises hold everything together and are tested as laws: the size depends
// on the Spec alone, and the pixels of a tensor form start at byte 0 or at a
// multiple of [Page], so that they can be mapped, and registered with a GPU, in
// place.
package layout

// Page is the alignment of pixels in files that have a header.
const Page = 4096
