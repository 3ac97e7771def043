// Package decode turns encoded bytes into pixels in the caller's memory.
//
// It reads JPEG, PNG, WebP, BMP and PPM/PGM, told apart by content. The work
// has two halves that need not happen at the same time:
//
//   - [ReadHeader] finds format, stored size and EXIF orientation in the first
//     bytes of a file; [Header.WithTail] adds what a PNG's last bytes say. Both are
//     pure Go, allocate nothing on success, and are safe on any input; an index of a
//     whole dataset is made with them.
//   - A [Decoder], one for each worker, puts the pixels where they belong: into
//     rows of 8-bit RGB or gray with any stride, already upright. It checks the
//     destination and the limit on pixels before anything is allocated, and
//     refuses data that is not what the header said.
//
// Behind the Decoder stands one [Codec] a format. Each decodes a region of the
// stored image, at a scale where the format has one, since that is all that
// cropping and resizing above this package need to save work. Those think of
// the image as it is shown: [Options.StoredRegion] and [Options.ScaleOffset] say
// where what they want is stored.
//
// # Two builds
//
// With cgo, JPEG, PNG and WebP are decoded by libjpeg(-turbo), libpng and libwebp
// through one C call an image, straight into the destination where no
// conversion stands between; pixels never touch the Go heap and nothing is
// allocated on it for an image. What scratch is needed (a strip of rows to turn
// or convert; a whole image for WebP that must be turned or made gray, and for PNG) is
// malloc'ed, kept and reused. The build tag "static" links the libraries'
// archives, so that the program needs only libc.
//
// PNG has a fast path for the kinds that datasets are made of, 8 bits a sample
// and not interlaced: libdeflate inflates the whole image, and vector code
// unfilters it from there into the destination, for about a third of what libpng
// takes. It costs memory, up to 64 MiB; where it would cost more, for other
// kinds, and wherever anything is odd about a file, libpng decodes it from the
// start. So the two cannot differ in what they make of an image, nor in what they
// refuse, except that libdeflate forgives compressed data that breaks its
// format's rules and has the right checksum nevertheless, which no damage brings
// about.
//
// Without cgo, Go's own decoders do the same work, slower and through the heap.
// They are compiled into every build, because they are what the C
// codecs are tested against. BMP and PPM/PGM are the same Go code in both.
//
// PNG, BMP, PPM/PGM and WebP come out the same to the last bit in both builds.
// JPEG does not: the inverse transforms round differently, by a level in a sample;
// Go's decoder repeats the samples of subsampled CMYK and RGB where libjpeg
// interpolates, and averages pixels for a scale; it does not smooth progressive images
// whose scans are incomplete; and it refuses a few sampling factors, arithmetic coding, and
// files without Huffman tables, as frames of motion JPEG are. Go's PNG decoder refuses more than a
// few bytes behind the compressed data. [Version] names the decoders in use.
//
// # One image and the next
//
// What is kept between images is memory without meaning: every image has a decoder of its
// library to itself. So neither what becomes of an image nor whether it is refused depends
// on those before it. An allocation that fails is ErrMemory, which [OfImage] tells from
// errors that the same bytes would meet again; the Decoder can be used further. (libwebp before
// 1.4.0 may crash where a small allocation of its lossless decoder fails. The memory that it
// is going to need is asked for beforehand, which makes that unlikely.)
//
// # Pixels
//
// Alpha is dropped (colours are not premultiplied), palettes are expanded, 16
// bits become round(v/257), gray becomes R=G=B. Gray from colour is a JPEG's own
// luma where it has one, else BT.601 of the 8-bit RGB:
// (19595R + 38470G + 7471B + 32768) >> 16. CMYK is multiplied, R = round(C*K/255),
// after Adobe's inversion, which holds where an Adobe marker says so. There is
// no colour management.
//
// As djpeg does, blocks of a progressive JPEG whose scans are incomplete are smoothed, and where
// Huffman tables are missing the usual ones are meant. An animated WebP is its first frame where
// that lies on the canvas; around it is black, as it is transparent there: what libwebp's
// WebPAnimDecoder gives, and Pillow shows.
//
// # EXIF of a PNG
//
// It may stand before the pixels or behind them, where only the file's last 64 KiB are searched,
// so that an index need not read whole files: an eXIf that starts further from the end is
// ignored, in every way of reading the file. One before the pixels counts more than one behind, and
// of several in one place the last, as with Pillow; one whose checksum is wrong does not count.
//
// # What is corrupt
//
// A header that claims more pixels than the file's bytes can hold, see [Header.Plausible], and a
// JPEG of more than 500 scans: of 2^28 pixels, 64, and in between in proportion.
//
// Data that ends early is, in every format, even if all pixels were there: a
// JPEG without EOI, a PNG without IEND, a WebP shorter than its RIFF header
// says, a BMP without its last padding. (The last number of a plain PPM can lose
// digits without anyone being able to tell.) So are checksum errors of a PNG's
// critical chunks, and entropy-coded JPEG data that runs out or makes no sense.
// Stray bytes between a JPEG's markers are not, nor are scans that an otherwise whole
// progressive JPEG leaves out, chunks of a PNG or WebP that cannot change its pixels (also a
// palette that is only suggested, if it is of impossible size), bytes behind a PNG's
// compressed data, and anything after the end.
// A region that stops above the image's last row is judged by no more than it needs,
// but still wants the end of the file to be there.
//
// # What this package refuses
//
// Lossless and 12-bit JPEG; bitmaps inside BMP that
// are JPEG or PNG; PBM and PAM. Resizing, cropping policy, dtypes and tensor
// layout are others' work.
package decode
