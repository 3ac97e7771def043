// Package decode turns encoded bytes into pixels in the caller's memory.
//
// It reads JPEG, PNG, WebP, BMP and PPM/PGM, and detects the format from the content:
//
//   - [ReadHeader] finds the format, stored size and EXIF orientation in the first bytes of a
//     file; [Header.WithTail] adds what a PNG's last bytes say. Both are pure Go, allocate
//     nothing on success, and are safe on any input. They are meant for indexing whole datasets.
//   - A [Decoder], one per worker, writes the pixels to their destination: rows of 8-bit RGB or
//     gray with any stride, already upright. It checks the destination and the pixel limit
//     before it allocates anything, and refuses data that does not match the header.
//
// Each format has one [Codec] behind the Decoder. A codec decodes a region of the stored image,
// at a reduced scale where the format supports that. Cropping and resizing above this package
// use the coordinates of the displayed image: [Options.StoredRegion] and [Options.ScaleOffset]
// map those to the stored one.
//
// # Two builds
//
// With cgo, libjpeg(-turbo), libpng and libwebp decode JPEG, PNG and WebP, in one C call per
// image, straight into the destination unless a conversion is needed. Pixels never touch the Go
// heap, and no image allocates on it. Scratch memory is malloc'ed, kept and reused. The build
// tag "static" links the libraries' archives.
//
// PNG has a fast path for images with 8 bits per sample that are not interlaced: libdeflate
// inflates the whole image, in up to 64 MiB, and vector code unfilters it into the destination,
// in about a third of libpng's time. libpng decodes all other kinds and, from the start, any file
// in which the fast path finds something unusual. Pixels and refusals are therefore the same,
// with one exception: libdeflate accepts compressed data that violates the format but has the
// right checksum, which accidental damage does not produce.
//
// Without cgo, Go's own decoders do the same work, more slowly and through the heap. They are
// compiled into every build because the C codecs are tested against them. PNG, BMP, PPM/PGM and
// WebP are identical to the bit in both builds. JPEG is not: the inverse transforms round
// differently, by one level in a sample; Go's decoder repeats the samples of subsampled CMYK and
// RGB where libjpeg interpolates, and averages pixels to scale; it does not smooth incomplete
// progressive images; and it refuses a few sampling factors, arithmetic coding, and files without
// Huffman tables. Go's PNG decoder refuses more than a few bytes after the compressed data.
// [Version] names the decoders in use.
//
// # State between images
//
// Only memory is kept between images, not its contents, so neither the pixels of an image nor
// its refusal depends on earlier images. An allocation that fails is ErrMemory, which [OfImage]
// distinguishes from errors that the same bytes would cause again; the Decoder remains usable.
// (libwebp before 1.4.0 may crash when a small allocation in its lossless decoder fails. To make
// that unlikely, the memory that it will need is requested beforehand.)
//
// # Pixels
//
// Alpha is dropped (colours are not premultiplied), palettes are expanded, 16 bits become
// round(v/257), gray becomes R=G=B. Gray from colour is a JPEG's own luma where it has one, else
// BT.601 of the 8-bit RGB: (19595R + 38470G + 7471B + 32768) >> 16. CMYK is multiplied,
// R = round(C*K/255), after the inversion that an Adobe marker announces. There is no colour
// management. Blocks of a progressive JPEG whose scans are incomplete are smoothed, and missing
// Huffman tables default to the standard ones, as in djpeg. An animated WebP decodes to its first
// frame on a black canvas, as in Pillow.
//
// EXIF of a PNG may come before or after the pixels. After them, only the file's last 64 KiB are
// searched, so that an index need not read whole files. EXIF before the pixels takes precedence,
// and of several in the same place the last one; one with a wrong checksum is ignored.
//
// # What is corrupt
//
// A header that claims more pixels than the file's bytes can hold, see [Header.Plausible], and a
// JPEG with too many scans: more than 500, or fewer for large images, down to 64 at 2^28 pixels,
// in inverse proportion to the pixels.
//
// Data that ends early, in every format, even if all pixels are present: a JPEG without EOI, a
// PNG without IEND, a WebP shorter than its RIFF header says, a BMP without its last padding. (A
// plain PPM whose last number lost digits cannot be detected.) Checksum errors in a PNG's
// critical chunks, and entropy-coded JPEG data that runs out or is invalid.
//
// These are not corrupt: stray bytes between a JPEG's markers, scans missing from an otherwise
// whole progressive JPEG, chunks of a PNG or WebP that cannot change its pixels, bytes after a
// PNG's compressed data, and anything after the end. A region that ends above the image's last
// row is checked only as far as it needs, but the end of the file must still be present.
//
// Refused are lossless and 12-bit JPEG, BMP files that contain JPEG or PNG, PBM and PAM.
package decode
