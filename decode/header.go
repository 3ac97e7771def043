package decode

// maxSide is the longest side, in pixels, in formats without a lower limit of their own. No
// real image comes near it, and it keeps products of sizes far from overflow.
const maxSide = 1 << 26

// checkSide refuses sizes that are impossible or beyond maxSide.
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
	// Scratch is an upper estimate, in bytes, of what the codec itself allocates while it
	// decodes the image, such as the coefficients of a progressive JPEG. It does not include the
	// Decoder's own scratch. Zero where a header did not come from ReadHeader.
	Scratch int64
	// inflated is the size in bytes of a PNG's inflated pixels if the fast path may take it, -1
	// if not; 0 in other formats, and where the header did not come from ReadHeader.
	inflated int64
	// least is the size in bytes of the smallest file that can hold the image, as far as that
	// is known; see Plausible.
	least int64
	// scan is where the data of the first scan starts in a JPEG with several.
	scan int
	// pixelsAt is where a PNG's first IDAT starts if the end of the file must still be searched
	// for EXIF; else 0.
	pixelsAt int64
}

// Size returns the image's size after its orientation is applied, or as stored.
func (h Header) Size(ignoreOrientation bool) (height, width int) {
	if !ignoreOrientation && transposes(h.Orientation) {
		return h.Width, h.Height
	}
	return h.Height, h.Width
}

// At returns the stored image's size at a scale of 1/scale: each side divided, rounded up.
// Regions at that scale lie within it.
func (h Header) At(scale int) (width, height int) {
	return (h.Width + scale - 1) / scale, (h.Height + scale - 1) / scale
}

func (h Header) pixels() int64 { return int64(h.Width) * int64(h.Height) }

// Plausible returns an ErrCorrupt error if a file of size bytes cannot hold the pixels that its
// header claims. Uncompressed pixels need their full size, deflate expands at most 1,032 times,
// a JPEG block has at least two bits (one if progressive), and 256 pixels of a lossy WebP have
// at least one. It refuses no sound file. It returns nil for lossless WebP, arithmetic-coded
// JPEG and run-length encoded BMP, which have no lower bound, and for a header that did not come
// from ReadHeader.
//
// ReadHeader makes this check itself when given the complete file.
func (h Header) Plausible(size int64) error {
	if size < h.least {
		return corrupt("%dx%d pixels need %d bytes at the least, and the file has %d", h.Width, h.Height, h.least, size)
	}
	return nil
}

// ReadHeader reads an image's header from data, the first bytes of a file or, if complete, all
// of them. It returns ErrShort if data is not complete and the header may extend past it. The
// length of a header depends on the format: a few bytes in BMP and PNM, up to the first scan in
// JPEG, up to the first IDAT in PNG, and the whole file for a WebP that announces EXIF, which
// comes last. The orientation of a PNG may come after its pixels: if data is not complete,
// [Header.Tail] says what else must be read. ReadHeader does not retain data.
func ReadHeader(data []byte, complete bool) (Header, error) {
	if !complete && len(data) < 12 { // Sniff needs them
		return Header{}, ErrShort
	}
	var h Header
	var err error
	switch Sniff(data) {
	case JPEG:
		h, err = jpegHeader(data, complete)
	case PNG:
		h, err = pngHeader(data, complete)
	case BMP:
		h, err = bmpHeader(data, complete)
	case PNM:
		h, err = pnmHeader(data, complete)
	case WebP:
		h, err = webpHeader(data, complete)
	default:
		err = unsupported("its first bytes are those of no image format that is read")
		if len(data) == 0 {
			err = unsupported("the file is empty")
		}
	}
	if err == nil && complete {
		err = h.Plausible(int64(len(data)))
	}
	if err != nil {
		return Header{}, err
	}
	return h, nil
}
