package decode

// maxSide is the longest side, in pixels, in formats without a lower limit of their own. No
// real image comes near it, and it keeps products of sizes far from overflow.
const maxSide = 1 << 26

func checkSide(width, height int64) error {
	if width < 1 || height < 1 {
		return corrupt("a size of %dx%d", width, height)
	}
	if width > maxSide || height > maxSide {
		return unsupported("a side of more than %d pixels", maxSide)
	}
	return nil
}

// Header describes an image without decoding it.
type Header struct {
	Format        Format
	Width, Height int   // as stored, before orientation
	Orientation   uint8 // EXIF 1..8; 1 when absent or invalid
	// Scratch is an upper estimate, in bytes, of the codec's own allocations while it decodes the
	// image, such as the coefficients of a progressive JPEG. It excludes the Decoder's own scratch.
	// Like the fields below, it is 0 if the header did not come from ReadHeader.
	Scratch  int64
	inflated int64  // PNG: bytes of the inflated pixels if the fast path may take it, -1 if not
	least    int64  // bytes of the smallest file that can hold the image, see Plausible
	scan     int    // JPEG with several scans: where the data of the first one starts
	original Format // format that a packed image was made from
	pixelsAt int64  // PNG: where the first IDAT starts, if EXIF must still be searched at the file's end
	stored   uint8  // PNG, BMP, PNM: bytes of a pixel, at most
}

// Size returns the image's size after its orientation is applied, or as stored.
func (h Header) Size(ignoreOrientation bool) (height, width int) {
	if !ignoreOrientation && transposes(h.Orientation) {
		return h.Width, h.Height
	}
	return h.Height, h.Width
}

// Reduces reports whether the image can be decoded at 1/2, 1/4 and 1/8: a JPEG, packed or not.
func (h Header) Reduces() bool { return h.Format == JPEG || h.original == JPEG }

// At returns the stored image's size at a scale of 1/scale: each side divided, rounded up.
func (h Header) At(scale int) (width, height int) {
	return (h.Width + scale - 1) / scale, (h.Height + scale - 1) / scale
}

func (h Header) pixels() int64 { return int64(h.Width) * int64(h.Height) }

// Plausible returns an ErrCorrupt error if a file of size bytes cannot hold the pixels that its
// header claims. Uncompressed pixels need their full size, deflate expands at most 1,032 times,
// a JPEG block has at least two bits (one if progressive), and 256 pixels of a lossy WebP have
// at least one. There is no lower bound for lossless WebP, arithmetic-coded JPEG and run-length
// encoded BMP. ReadHeader makes this check itself when given the complete file.
func (h Header) Plausible(size int64) error {
	if size < h.least {
		return corrupt("%dx%d pixels need %d bytes at the least, and the file has %d", h.Width, h.Height, h.least, size)
	}
	return nil
}

// ReadHeader reads an image's header from data, the first bytes of a file or, if complete, all
// of them. It returns ErrShort if data is not complete and the header may extend past it: it has
// a few bytes in BMP and PNM, and extends up to the first scan in JPEG, up to the first IDAT in
// PNG, and over the whole file for a WebP that announces EXIF. The orientation of a PNG may come
// after its pixels: if data is not complete, [Header.Tail] says what else must be read.
func ReadHeader(data []byte, complete bool) (Header, error) {
	if !complete && len(data) < 12 { // Sniff needs them
		return Header{}, ErrShort
	}
	format := Sniff(data)
	switch {
	case len(data) == 0:
		return Header{}, unsupported("the file is empty")
	case format == Unknown:
		return Header{}, unsupported("it does not begin like JPEG, PNG, WebP, BMP, PPM, PGM or a packed image")
	}
	h, err := formats[format].header(data, complete)
	if err == nil && complete {
		err = h.Plausible(int64(len(data)))
	}
	if err != nil {
		return Header{}, err
	}
	return h, nil
}
