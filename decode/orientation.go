package decode

// transposes reports whether an EXIF orientation exchanges width and height.
func transposes(orientation uint8) bool { return orientation >= 5 && orientation <= 8 }

// placement says where the pixels of a decoded region go in the destination:
// pixel (x, y) of the region, as stored, is at pix[base + x*dx + y*dy]. All
// eight orientations are such a map, so a codec needs to know nothing else of
// them: where dx is the size of a pixel, rows can be decoded in place.
type placement struct{ base, dx, dy int }

// place returns the placement of a region of w by h stored pixels, of c bytes
// each, that is shown upright in rows of the given stride.
func place(orientation uint8, w, h, c, stride int) placement {
	right, bottom := (w-1)*c, (h-1)*stride // the last column and row where axes stay
	switch orientation {
	case 2: // mirrored
		return placement{right, -c, stride}
	case 3: // upside down
		return placement{right + bottom, -c, -stride}
	case 4: // mirrored, upside down
		return placement{bottom, c, -stride}
	}
	right, bottom = (h-1)*c, (w-1)*stride // and where they are exchanged
	switch orientation {
	case 5: // transposed
		return placement{0, stride, c}
	case 6: // to be turned clockwise
		return placement{right, stride, -c}
	case 7: // transposed about the other diagonal
		return placement{right + bottom, -stride, -c}
	case 8: // to be turned counter-clockwise
		return placement{bottom, -stride, c}
	}
	return placement{0, c, stride}
}
