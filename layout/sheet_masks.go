package layout

import "encoding/binary"

// PutMaskSheet draws the contact sheet of a batch of masks into dst, Size(MasksPNG, s) bytes, as a
// PNG, with a colour for each class: that of Pascal VOC. Slots from valid on are dimmed and struck
// through.
func PutMaskSheet(dst []byte, s Spec, masks []byte, valid int) {
	g, size := newMaskSheet(s), s.DType.Size()
	g.draw(dst, s.N, valid, func(out []byte, i, ty int) {
		y := min(ty*g.scale+g.scale/2, s.H-1)
		for tx := range g.thumbW {
			x := min(tx*g.scale+g.scale/2, s.W-1)
			at := masks[((i*s.H+y)*s.W+x)*size:]
			class := uint32(at[0])
			if size == 4 {
				class = binary.LittleEndian.Uint32(at)
			}
			out[3*tx], out[3*tx+1], out[3*tx+2] = classColour(class)
		}
	})
	g.png.finish(dst[:g.png.size()], g.width, g.height, g.chans)
}

// newMaskSheet is the sheet of masks, in colour.
func newMaskSheet(s Spec) sheet {
	s.C = 3
	return newSheet(s)
}

// classColour spreads the lowest bits of a class over the highest ones of red, green and blue.
func classColour(class uint32) (r, g, b byte) {
	for bit := 7; bit >= 0; bit-- {
		r |= byte(class&1) << bit
		g |= byte(class>>1&1) << bit
		b |= byte(class>>2&1) << bit
		class >>= 3
	}
	return r, g, b
}
