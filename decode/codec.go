package decode

// Region is a rectangle of the stored image, before orientation, in pixels at the scale of
// decoding (see Header.At).
type Region struct{ X, Y, W, H int }

// View is what to decode of an image: a region at a scale of 1/Scale, in a colour, with an
// orientation applied.
type View struct {
	Header      Header
	Region      Region
	Scale       int // 1; for JPEG also 2, 4 or 8
	Color       Color
	Orientation uint8 // to apply; 1 for none, and always 1 in formats without orientation
}

// size returns the upright region's size.
func (v *View) size() (height, width int) {
	if transposes(v.Orientation) {
		return v.Region.W, v.Region.H
	}
	return v.Region.H, v.Region.W
}

// placement returns where the view's pixels go in rows of the given stride.
func (v *View) placement(stride int) placement {
	return place(v.Orientation, v.Region.W, v.Region.H, v.Color.Channels(), stride)
}

// A Codec reads one format. A Decoder calls it from one goroutine at a time, with a view and a
// destination that fit each other and the image.
type Codec interface {
	// Header is ReadHeader for this format.
	Header(data []byte, complete bool) (Header, error)
	// Decode writes the view's pixels, and nothing else, to dst. It must itself detect data that
	// is not the image in the view's header.
	Decode(dst Image, data []byte, v View) error
	// Scratch is the memory held between images, in bytes.
	Scratch() int64
	// Trim frees that memory.
	Trim()
	// Close frees everything. The codec must not be used afterwards.
	Close()
}

// scales reports whether a format can be decoded at 1/scale.
func scales(f Format, scale int) bool {
	switch scale {
	case 1:
		return true
	case 2, 4, 8:
		return f == JPEG
	}
	return false
}
