package decode

// Region is a rectangle of the stored image, before orientation, in pixels of
// the image at the scale it is decoded at (see Header.At).
type Region struct{ X, Y, W, H int }

// View is what to decode of an image: a region at a scale of 1/Scale, in a
// colour, turned by an orientation.
type View struct {
	Header      Header
	Region      Region
	Scale       int // 1; for JPEG also 2, 4 or 8
	Color       Color
	Orientation uint8 // the one to apply: 1 for none, as always in formats that know none
}

// size is that of the region once it is upright.
func (v *View) size() (height, width int) {
	if transposes(v.Orientation) {
		return v.Region.W, v.Region.H
	}
	return v.Region.H, v.Region.W
}

// placement of the view's pixels in rows of the given stride.
func (v *View) placement(stride int) placement {
	return place(v.Orientation, v.Region.W, v.Region.H, v.Color.Channels(), stride)
}

// A Codec reads one format. A Decoder calls it from one goroutine at a time, and
// with a view and a destination that fit each other and the image.
type Codec interface {
	// Header is ReadHeader for this format.
	Header(data []byte, complete bool) (Header, error)
	// Decode writes the view's pixels, and nothing else, to dst. It must find out
	// by itself if data is not the image that the view's header describes.
	Decode(dst Image, data []byte, v View) error
	// Scratch is the memory it holds between images, in bytes.
	Scratch() int64
	// Trim gives that memory back.
	Trim()
	// Close frees everything. The codec is not used again.
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
