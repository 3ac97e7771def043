// Package decode turns encoded bytes into pixels in the caller's memory.
//
// [ReadHeader] finds the format, stored size and EXIF orientation of a JPEG, PNG, WebP, BMP,
// PPM/PGM or packed image in its first bytes; [Header.WithTail] adds what a PNG's last bytes say.
// Both are pure Go, allocate nothing on success, and are safe on any input.
//
// A [Decoder], one per worker, writes pixels to their destination: rows of 8-bit RGB or gray with
// any stride, already upright. It checks the destination and the pixel limit before it allocates
// anything, and refuses data that does not match the header. Behind it, each format has one codec,
// a function that decodes a region of the stored image, in JPEG, packed or not, also at a reduced
// scale. [Options.StoredRegion] and [Options.ScaleOffset] map displayed coordinates to stored ones.
//
// # Two builds
//
// With cgo, libjpeg-turbo, libpng and libwebp decode in one C call per image, straight into the
// destination unless a conversion is needed, and nothing is allocated on the Go heap. All use the
// same scratch memory, which is kept. The build tag "static" links the libraries' archives; with
// the tag "libraries", for measurements, nothing of what follows here is used, and libspng decodes
// most PNGs.
//
// Most JPEGs go through a decoder of our own, two to three times as fast as libjpeg-turbo and with
// the same pixels to the last bit (bfs_baseline.h, bfs_progressive.h). It reads 8-bit JPEGs with
// Huffman codes and one or three components, sequential ones in one scan and complete progressive
// ones, at every scale; everything else, and everything unusual or damaged, it leaves to
// libjpeg-turbo, whose pixels and verdict count. A [Kernel] says which vector instructions it uses,
// and [Decoder.TakeJPEGs] what it left and why. [DecodePair] decodes two baseline images in one
// call, a quarter faster: each waits for its own bits, and meanwhile it is the other's turn. A
// region of a progressive JPEG takes all entropy decoding, which is most of the work.
//
// What our own decoder reads can also be packed: its coefficients are then in a code that vector
// instructions read several times as fast as Huffman codes, a tenth larger, in chunks that need
// nothing of each other, so that a region takes no more than its rows of chunks (bfs_tiers.h). The
// pixels are the same to the last bit. If the rest of the file is kept beside them, the file can be
// restored byte for byte, in Go; packing checks that, and refuses files that were written in any
// other way than the usual one.
//
// PNG has a fast path for images with 8 bits per sample that are not interlaced: libdeflate
// inflates the whole image, in up to 64 MiB, and vector code unfilters it. libpng decodes all other
// kinds and, from the start, any file in which the fast path finds something unusual. Pixels and
// refusals are therefore the same, except that libdeflate accepts compressed data that violates
// the format but has the right checksum, which accidental damage does not produce.
//
// Without cgo, Go's own decoders do the same work, more slowly and through the heap. They are in
// every build, as the kernel [Pure], because the C codecs are tested against them. All formats but
// JPEG are identical to the bit in both builds. In JPEG the inverse transforms round differently,
// by one level in a sample; Go's decoder repeats the samples of subsampled CMYK and RGB where
// libjpeg interpolates, averages pixels to scale, does not smooth incomplete progressive images,
// and refuses a few sampling factors, arithmetic coding, and files without Huffman tables. Go's PNG
// decoder refuses more than a few bytes after the compressed data. [Version] names the decoders in
// use.
//
// # State between images
//
// Only memory is kept between images, not its contents, except for Huffman tables, which an image
// finds by their complete definition. So neither the pixels of an image nor its refusal depends on
// earlier images. Each Decoder keeps the tables that its last images used, at most six. All
// Decoders of the process share them, and the last one that lets go of a table frees it.
// ScratchBytes counts them in full for each. An allocation that fails is ErrMemory; the Decoder
// remains usable.
//
// # Pixels
//
// Alpha is dropped (colours are not premultiplied), palettes are expanded, 16 bits become
// round(v/257), gray becomes R=G=B. Gray from colour is a JPEG's own luma where it has one, else
// BT.601 of the 8-bit RGB: (19595R + 38470G + 7471B + 32768) >> 16. CMYK is multiplied,
// R = round(C*K/255), after the inversion that an Adobe marker announces. There is no colour
// management. As in djpeg, incomplete progressive JPEGs are smoothed, and missing Huffman tables
// default to the standard ones. An animated WebP decodes to its first frame on a black canvas.
//
// # The packed form
//
// [Decoder.Pack] writes the pixels of a PNG, BMP, PNM or WebP in a code of our own, which vector
// instructions undo many times as fast as a PNG: each row of each plane is predicted from the left
// or from above, and each 16 residuals have the fewest bits that hold them. A packed image is one
// more format: [ReadHeader] knows it, and a Decoder decodes regions of it, to the original's
// pixels. Packed for memory, it holds what the rules for pixels give, but indices in place of
// colours of a PNG's palette; packed for a file, it holds what is stored, alpha and 16 bits
// included, and what else the file has, and [Unpack] undoes it. Run-length encoded BMP, plain PNM
// and WebP can be packed for memory only. Each decode checks the checksum, unless [Task] says that
// it was checked; all sizes are checked always. [PackedBound] says beforehand how much memory
// packing takes. An image that is decoded anyway is packed at the same time through [Task]: a
// JPEG's Huffman codes are read once for both.
//
// # What is corrupt
//
// A header that claims more pixels than the file's bytes can hold, see [Header.Plausible]. A JPEG
// with more than 500 scans, or fewer for large images, down to 64 at 2^28 pixels. Data that ends
// early, in every format, even if all pixels are present, except for a plain PPM whose last number
// lost digits. Checksum errors in a PNG's critical chunks, and entropy-coded JPEG data that runs
// out or is invalid.
//
// Not corrupt are stray bytes between a JPEG's markers, scans missing from an otherwise whole
// progressive JPEG, chunks of a PNG or WebP that cannot change its pixels, bytes after a PNG's
// compressed data, and anything after the end. Of a region that ends above the image's last row,
// only the data up to its end is checked, but the end of the file must still be present.
//
// Refused are lossless and 12-bit JPEG, BMP files that contain JPEG or PNG, PBM and PAM.
package decode
