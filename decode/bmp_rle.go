package decode

// rleCanvas draws run-length encoded indices and keeps those in the region. Rows start at the
// bottom, and the data may move the position.
type rleCanvas struct {
	dst    Image
	view   View
	layout *bmpLayout
	table  colorTable
	x, y   int // y counts from the bottom, as stored
}

// decodeRLE decodes RLE4 and RLE8. Pixels that the data skips have colour 0; runs past the right
// edge are clipped. Data without an end mark is truncated.
func decodeRLE(dst Image, data []byte, v View, l *bmpLayout) error {
	c := rleCanvas{dst: dst, view: v, layout: l, table: l.table(v.Color)}
	c.fill()
	for {
		if len(data) < 2 {
			return endsEarly(true)
		}
		n, code := int(data[0]), data[1]
		data = data[2:]
		if n > 0 {
			if err := c.run(n, code); err != nil {
				return err
			}
			continue
		}
		rest, done, err := c.escape(code, data)
		if done || err != nil {
			return err
		}
		data = rest
	}
}

// escape handles the codes that are not runs.
func (c *rleCanvas) escape(code byte, data []byte) (rest []byte, done bool, err error) {
	switch code {
	case 0: // end of line
		c.x, c.y = 0, c.y+1
	case 1: // end of bitmap
		return nil, true, nil
	case 2: // move
		if len(data) < 2 {
			return nil, false, endsEarly(true)
		}
		c.x, c.y = c.x+int(data[0]), c.y+int(data[1])
		data = data[2:]
	default:
		data, err = c.literal(int(code), data)
	}
	// The last end of line leads to one row above the top.
	if c.y > c.layout.height {
		return nil, false, corrupt("rows beyond its height")
	}
	return data, false, err
}

// run draws n pixels of one index, or of two alternating.
func (c *rleCanvas) run(n int, code byte) error {
	if c.y >= c.layout.height {
		return corrupt("rows beyond its height")
	}
	for i := range n {
		c.put(c.pick(code, i))
	}
	return nil
}

// literal draws n pixels with an index each, padded to whole 16-bit words.
func (c *rleCanvas) literal(n int, data []byte) ([]byte, error) {
	if c.y >= c.layout.height {
		return nil, corrupt("rows beyond its height")
	}
	size := n
	if c.layout.bits == 4 {
		size = (n + 1) / 2
	}
	if len(data) < size+size&1 {
		return nil, endsEarly(true)
	}
	for i := range n {
		b := data[i*c.layout.bits/8]
		c.put(c.pick(b, i))
	}
	return data[size+size&1:], nil
}

// pick returns the index of pixel i in a byte: 4 bits, high ones first, or all 8.
func (c *rleCanvas) pick(b byte, i int) byte {
	if c.layout.bits == 8 {
		return b
	}
	if i%2 == 0 {
		return b >> 4
	}
	return b & 15
}

func (c *rleCanvas) put(index byte) {
	r := c.view.Region
	x, y := c.x-r.X, c.layout.height-1-c.y-r.Y
	c.x = min(c.x+1, c.layout.width)
	if x < 0 || x >= r.W || y < 0 || y >= r.H {
		return
	}
	n := c.view.Color.Channels()
	copy(c.dst.Pix[y*c.dst.Stride+x*n:][:n], c.table[index][:])
}

func (c *rleCanvas) fill() {
	n := c.view.Color.Channels()
	for y := range c.view.Region.H {
		line := c.dst.Pix[y*c.dst.Stride:][:c.view.Region.W*n]
		for x := 0; x < len(line); x += n {
			copy(line[x:x+n], c.table[0][:])
		}
	}
}
