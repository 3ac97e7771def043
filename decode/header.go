package decode

// sniffLength is how many bytes Sniff may look at.
const sniffLength = 12

// maxSide is the longest side that is read, in pixels, of formats without a
// lower limit of their own. No real image comes near, and products of sizes stay far
// from overflowing.
const maxSide = 1 << 26

// checkSide refuses sizes that no image has, and those that this package leaves.
func checkSide(width, height int64) error {
	if width < 1 || height < 1 {
		return corrupt("a size of %dx%d", width, height)
	}
	if width > maxSide || height > maxSide {
		return unsupported("a side of more than %d pixels", maxSide)
	}
	return nil
}

// Header is what is known of an image without decoding it.
type Header struct {
	Format        Format
	Width, Height int   // as stored, before orientation
	Orientation   uint8 // EXIF 1..8; 1 when absent or invalid
	// Scratch is an upper estimate, in bytes, of what the codec itself
	// allocates while it decodes the image (the coefficients of a progressive
	// JPEG, for one), beside the Decoder's own scratch. Zero where a header
	// did not come from ReadHeader.
	Scratch int64
	// inflated is what a PNG's pixels inflate to where the fast path may take it,
	// in bytes, -1 where it will not; 0 in other formats, and where the header
	// did not come from ReadHeader.
	inflated int64
	// least is the size of the smallest file that can hold the image, in bytes, as far as
	// that can be told; see Plausible.
	least int64
	// scan is where the data of a JPEG's first scan of several starts.
	scan int
	// pixelsAt is where a PNG's first IDAT starts whose end has still to tell if there is EXIF;
	// else 0.
	pixelsAt int64
}

// Size returns the image's size after its orientation is applied, or as stored.
func (h Header) Size(ignoreOrientation bool) (height, width int) {
	if !ignoreOrientation && transposes(h.Orientation) {
		return h.Width, h.Height
	}
	return h.Height, h.Width
}

// At returns the stored image's size at a scale of 1/scale: each side divided,
// rounded up. Regions at that scale lie within it.
func (h Header) At(scale int) (width, height int) {
	return (h.Width + scale - 1) / scale, (h.Height + scale - 1) / scale
}

func (h Header) pixels() int64 { return int64(h.Width) * int64(h.Height) }

// same reports whether both describe the same pixels in the same file format.
func (h Header) same(o Header) bool {
	return h.Format == o.Format && h.Width == o.Width && h.Height == o.Height && h.Orientation == o.Orientation
}

// Plausible returns an error of the kind ErrCorrupt where a file of size bytes cannot hold as many
// pixels as its header claims: those that are stored as they are take their bytes,
// deflate makes at most 1,032 of one, a block of a JPEG has at least two bits (one, if it is
// progressive), and 256 pixels of a lossy WebP at least one. No sound file is refused. Lossless WebP,
// JPEG with arithmetic coding and run-length encoded BMP can be as small as they like, and
// nothing is known of a header that did not come from ReadHeader: there it returns nil.
//
// ReadHeader has asked this already where it was given the complete file.
func (h Header) Plausible(size int64) error {
	if size < h.least {
		return corrupt("%dx%d pixels need %d bytes at the least, and the file has %d", h.Width, h.Height, h.least, size)
	}
	return nil
}

// ReadHeader reads an image's header from data, the first bytes of a file or,
// if complete, all of them. It returns ErrShort when the header may go on past
// data that is not complete; how far a header reaches depends on the format:
// a few bytes in BMP and PNM, the first scan in JPEG, the first IDAT in PNG, and
// in WebP the whole file where it says that it has EXIF, which stands last.
// The orientation of a PNG may stand behind its pixels: if data is not complete, [Header.Tail]
// says what else is needed to tell. data is not kept.
func ReadHeader(data []byte, complete bool) (Header, error) {
	if !complete && len(data) < sniffLength {
		return Header{}, ErrShort
	}
	h, err := readHeader(data, complete)
	if err == nil && complete {
		err = h.Plausible(int64(len(data)))
	}
	if err != nil {
		return Header{}, err
	}
	return h, nil
}

func readHeader(data []byte, complete bool) (Header, error) {
	switch Sniff(data) {
	case JPEG:
		return jpegHeader(data, complete)
	case PNG:
		return pngHeader(data, complete)
	case BMP:
		return bmpHeader(data, complete)
	case PNM:
		return pnmHeader(data, complete)
	case WebP:
		return webpHeader(data, complete)
	}
	if len(data) == 0 {
		return Header{}, unsupported("the file is empty")
	}
	return Header{}, unsupported("its first bytes are those of no image format that is read")
}
