package decode

// rleCanvas draws run-length encoded indices and keeps those in the region. Rows start at the
// bottom, and the data may move the position.
type rleCanvas struct {
	dst    Image
	view   view
	layout *bmpLayout
	table  colorTable
	data   []byte
	x, y   int // y counts from the bottom, as stored
}

// decodeRLE decodes RLE4 and RLE8. Pixels that the data skips have colour 0; runs past the right
// edge are clipped. Data without an end mark is truncated.
func decodeRLE(dst Image, data []byte, v view, l *bmpLayout) error {
	c := rleCanvas{dst: dst, view: v, layout: l, table: l.table(v.Color), data: data}
	for y := range v.Region.H {
		for x := range v.Region.W {
			v.put(dst, v.Region.X+x, v.Region.Y+y, c.table[0])
		}
	}
	for {
		b, err := c.take(2)
		if err != nil {
			return err
		}
		n, code := int(b[0]), int(b[1])
		switch {
		case n > 0:
			err = c.draw(n, b[1:], false)
		case code == 0: // end of line
			c.x, c.y = 0, c.y+1
		case code == 1: // end of bitmap
			return nil
		case code == 2: // move
			if b, err = c.take(2); err == nil {
				c.x, c.y = c.x+int(b[0]), c.y+int(b[1])
			}
		default:
			if b, err = c.take(((code*l.bits+7)/8 + 1) &^ 1); err == nil {
				err = c.draw(code, b, true)
			}
		}
		if err != nil {
			return err
		}
		if c.y > l.height { // the last end of line leads to one row above the top
			return errBeyond()
		}
	}
}

func errBeyond() error { return corrupt("rows beyond its height") }

// take returns the next n bytes.
func (c *rleCanvas) take(n int) ([]byte, error) {
	if len(c.data) < n {
		return nil, endsEarly(true)
	}
	b := c.data[:n]
	c.data = c.data[n:]
	return b, nil
}

// draw draws n pixels. A literal run has an index for each pixel; otherwise, all have the first
// byte's.
func (c *rleCanvas) draw(n int, indices []byte, literal bool) error {
	if c.y >= c.layout.height {
		return errBeyond()
	}
	for i := range n {
		at := i
		if !literal {
			at = i % (8 / c.layout.bits)
		}
		c.view.put(c.dst, c.x, c.layout.height-1-c.y, c.table[c.layout.index(indices, at)])
		c.x = min(c.x+1, c.layout.width)
	}
	return nil
}
