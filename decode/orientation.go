package decode

import "encoding/binary"

// transposes reports whether an orientation swaps width and height.
func transposes(orientation uint8) bool { return orientation >= 5 && orientation <= 8 }

// fromFarEdges reports from which edges of the stored image the upright image's coordinates count:
// right or left, bottom or top.
func fromFarEdges(orientation uint8) (right, bottom bool) {
	switch orientation {
	case 2, 8:
		return true, false
	case 3, 7:
		return true, true
	case 4, 6:
		return false, true
	}
	return false, false
}

// placement maps a decoded region to the destination: pixel (x, y) of the region, as stored, is
// at pix[base + x*dx + y*dy]. Codecs need no other knowledge of orientation. Where dx is the
// size of a pixel, rows can be decoded in place.
type placement struct{ base, dx, dy int }

// place returns the placement of a region of w by h stored pixels, c bytes each, shown upright
// in rows of the given stride.
func place(orientation uint8, w, h, c, stride int) placement {
	p := placement{dx: c, dy: stride}
	if transposes(orientation) {
		p.dx, p.dy = stride, c
	}
	right, bottom := fromFarEdges(orientation)
	if right {
		p.base, p.dx = (w-1)*p.dx, -p.dx
	}
	if bottom {
		p.base, p.dy = p.base+(h-1)*p.dy, -p.dy
	}
	return p
}

// Steps describes the upright pixels of a region that was decoded as stored, in rows of stride
// bytes with c bytes per pixel: upright pixel (x, y) is at first + x*dx + y*dy.
func (o Options) Steps(h Header, r Region, c, stride int) (first, dx, dy int) {
	inverse := o.orientation(h)
	switch inverse {
	case 6:
		inverse = 8
	case 8:
		inverse = 6
	}
	if transposes(inverse) {
		r.W, r.H = r.H, r.W
	}
	p := place(inverse, r.W, r.H, c, stride)
	return p.base, p.dx, p.dy
}

// StoredRegion returns the region to give DecodeRegion for a rectangle of the upright image at a
// scale of 1/scale. The options determine what is upright. X and W count from its left, Y and H
// from its top, within h.At(scale) after orientation. DecodeRegion's output has the rectangle's
// size.
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
// offY in the scaled one. The last stored column and row of a scaled image may cover fewer than
// scale of the true ones, and come first where the image is mirrored.
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

// exifPrefix precedes the TIFF structure in a JPEG's APP1 and, from some writers, in a WebP's
// EXIF chunk.
const exifPrefix = "Exif\x00\x00"

const tagOrientation = 0x0112

// exifOrientation returns the orientation in the first directory of a TIFF structure, or 1:
// invalid EXIF must not make an image unreadable.
func exifOrientation(tiff []byte) uint8 {
	const short, long, entry = 3, 4, 12
	order := tiffOrder(tiff)
	if order == nil {
		return 1
	}
	at := int64(order.Uint32(tiff[4:]))
	if at+2 > int64(len(tiff)) {
		return 1
	}
	entries := tiff[at+2:]
	for n := order.Uint16(tiff[at:]); n > 0 && len(entries) >= entry; n-- {
		if order.Uint16(entries) != tagOrientation {
			entries = entries[entry:]
			continue
		}
		v := uint32(0)
		switch order.Uint16(entries[2:]) {
		case short:
			v = uint32(order.Uint16(entries[8:]))
		case long:
			v = order.Uint32(entries[8:])
		}
		if v >= 1 && v <= 8 {
			return uint8(v)
		}
		break
	}
	return 1
}

// tiffOrder returns the byte order of a TIFF structure, which starts with it; nil if it does not.
func tiffOrder(tiff []byte) binary.ByteOrder {
	switch {
	case len(tiff) < 8:
	case string(tiff[:4]) == "II*\x00":
		return binary.LittleEndian
	case string(tiff[:4]) == "MM\x00*":
		return binary.BigEndian
	}
	return nil
}
