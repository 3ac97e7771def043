package decode

// Cropping uses the coordinates of the displayed image; a Decoder decodes rectangles of the
// stored image and turns them. StoredRegion and ScaleOffset convert from the former to the
// latter.

// StoredRegion returns the region to give DecodeRegion for a rectangle of the upright image at a
// scale of 1/scale, where the options decide what is upright. X and W count from its left, Y and
// H from its top, within h.At(scale) after orientation. DecodeRegion's output for it has the
// rectangle's size.
func (o Options) StoredRegion(h Header, upright Region, scale int) Region {
	r := upright
	orientation := o.orientation(h)
	if transposes(orientation) {
		r = Region{X: upright.Y, Y: upright.X, W: upright.H, H: upright.W}
	}
	w, hh := h.At(scale)
	right, bottom := fromFarEdges(orientation)
	if right {
		r.X = w - r.X - r.W
	}
	if bottom {
		r.Y = hh - r.Y - r.H
	}
	return r
}

// ScaleOffset returns how far, in scaled pixels, the upright image at a scale of 1/scale begins
// above and to the left of the true one: row y of the full-size upright image is at y/scale +
// offY in the scaled one. The last stored column of a scaled image covers fewer than scale
// columns if the width is not a multiple of scale, and the same holds for the last row; they
// come first where the image is mirrored. Both offsets are 0 at scale 1.
func (o Options) ScaleOffset(h Header, scale int) (offY, offX float64) {
	orientation := o.orientation(h)
	w, hh := h.At(scale)
	right, bottom := fromFarEdges(orientation)
	if right {
		offX = float64(w*scale-h.Width) / float64(scale)
	}
	if bottom {
		offY = float64(hh*scale-h.Height) / float64(scale)
	}
	if transposes(orientation) {
		offY, offX = offX, offY
	}
	return offY, offX
}

// fromFarEdges reports from which edges of the stored image the upright one's coordinates count:
// right or left, bottom or top.
func fromFarEdges(orientation uint8) (right, bottom bool) {
	switch orientation {
	case 2, 3, 7, 8:
		right = true
	}
	switch orientation {
	case 3, 4, 6, 7:
		bottom = true
	}
	return right, bottom
}
