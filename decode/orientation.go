package decode

// transposes reports whether an EXIF orientation swaps width and height.
func transposes(orientation uint8) bool { return orientation >= 5 && orientation <= 8 }

// placement maps a decoded region to the destination: pixel (x, y) of the region, as stored, is
// at pix[base + x*dx + y*dy]. All eight orientations are such maps, so codecs need no other
// knowledge of orientation. Where dx is the size of a pixel, rows can be decoded in place.
type placement struct{ base, dx, dy int }

// place returns the placement of a region of w by h stored pixels, c bytes each, shown upright
// in rows of the given stride.
func place(orientation uint8, w, h, c, stride int) placement {
	right, bottom := (w-1)*c, (h-1)*stride // the last column and row if axes are not swapped
	switch orientation {
	case 2: // mirrored
		return placement{right, -c, stride}
	case 3: // upside down
		return placement{right + bottom, -c, -stride}
	case 4: // mirrored, upside down
		return placement{bottom, c, -stride}
	}
	right, bottom = (h-1)*c, (w-1)*stride // and if they are
	switch orientation {
	case 5: // transposed
		return placement{0, stride, c}
	case 6: // turn clockwise
		return placement{right, stride, -c}
	case 7: // transposed about the other diagonal
		return placement{right + bottom, -stride, -c}
	case 8: // turn counter-clockwise
		return placement{bottom, -stride, c}
	}
	return placement{0, c, stride}
}
