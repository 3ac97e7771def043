package decode

// Whoever crops thinks of the image as it is shown; a Decoder decodes rectangles
// of it as it is stored, and turns them. These two lead from the one to the other.

// StoredRegion returns the region to give DecodeRegion for a rectangle of the
// upright image at a scale of 1/scale, where upright is what the options make of
// it: X and W count from its left, Y and H from its top, within the size of h.At(scale)
// once that is turned. What DecodeRegion makes of it has the rectangle's size.
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

// ScaleOffset returns how far, in scaled pixels, the upright image at a scale of
// 1/scale begins above and left of the true one: what is at y in an upright image
// of full size is at y/scale + offY in the scaled one. A scaled image's last
// stored column stands for fewer than scale columns where the width is not a
// multiple, and so its last row; they come first where the image is mirrored.
// Both are 0 at scale 1.
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

// fromFarEdges reports from which edges of the stored image the upright one's
// coordinates count: from the right one, or else the left; from the bottom, or else
// the top.
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
