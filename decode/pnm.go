package decode

import (
	"encoding/binary"
	"fmt"
)

// pnmCodec reads PPM and PGM, raw and plain, with any maximum: samples become
// round(v*255/maximum).
type pnmCodec struct{ stateless }

func (pnmCodec) Decode(dst Image, data []byte, v View) error {
	l, err := readPNMLayout(data, true)
	if err != nil {
		return err
	}
	if l.width != v.Header.Width || l.height != v.Header.Height {
		return fmt.Errorf("%w: it is %dx%d", ErrMismatch, l.width, l.height)
	}
	if l.plain {
		return l.decodePlain(dst, data, v)
	}
	if l.rasterBytes() > int64(len(data)-l.raster) {
		return endsEarly(true)
	}
	stride, pixel := int(l.rowBytes()), l.channels*l.sampleBytes()
	for y := range v.Region.H {
		from := data[l.raster+(v.Region.Y+y)*stride+v.Region.X*pixel:][:v.Region.W*pixel]
		if err := l.decodeRow(dst.Pix[y*dst.Stride:][:v.Region.W*v.Color.Channels()], from, v.Color); err != nil {
			return err
		}
	}
	return nil
}

// decodeRow converts a binary row, with short cuts for the usual kinds.
func (l *pnmLayout) decodeRow(to, from []byte, c Color) error {
	switch {
	case l.maxval != 255:
		return l.scaleRow(to, from, c)
	case l.channels == c.Channels():
		copy(to, from)
	case c == Gray:
		weigh(to, from, 3, 0, 2)
	default:
		repeat(to, from)
	}
	return nil
}

func (l *pnmLayout) scaleRow(to, from []byte, c Color) error {
	w := pixelWriter{to: to, color: c, channels: l.channels}
	for size := l.sampleBytes(); len(from) >= size; from = from[size:] {
		s := int(from[0])
		if size == 2 {
			s = int(binary.BigEndian.Uint16(from))
		}
		if s > l.maxval {
			return corrupt("a sample of %d where %d is the most", s, l.maxval)
		}
		w.sample(l.scale(s))
	}
	return nil
}

func (l *pnmLayout) scale(s int) uint8 {
	if l.maxval == 255 {
		return uint8(s)
	}
	return uint8((2*255*s + l.maxval) / (2 * l.maxval))
}

// decodePlain reads all samples, whatever the region: finding its pixels, and the end of the
// image, requires counting every number.
func (l *pnmLayout) decodePlain(dst Image, data []byte, v View) error {
	p := l.raster
	for y := range l.height {
		w := pixelWriter{color: v.Color, channels: l.channels}
		if row := y - v.Region.Y; row >= 0 && row < v.Region.H {
			w.to = dst.Pix[row*dst.Stride:][:v.Region.W*v.Color.Channels()]
		}
		for x := range l.width {
			for range l.channels {
				s, end := pnmNumber(data, p)
				switch {
				case end < 0:
					return endsEarly(true)
				case end == p:
					return corrupt("something that is no number among its samples")
				case s > l.maxval:
					return corrupt("a sample of %d where %d is the most", s, l.maxval)
				}
				p = end
				if x >= v.Region.X && x-v.Region.X < v.Region.W {
					w.sample(l.scale(s))
				}
			}
		}
	}
	return nil
}

// pixelWriter assembles pixels from consecutive samples and drops those beyond the end of to.
type pixelWriter struct {
	to       []byte
	color    Color
	channels int // of the source
	held     [3]uint8
	n        int // number of samples held
}

func (w *pixelWriter) sample(s uint8) {
	w.held[w.n] = s
	if w.n++; w.n < w.channels {
		return
	}
	w.n = 0
	if len(w.to) < w.color.Channels() {
		return
	}
	r, g, b := w.held[0], w.held[1], w.held[2]
	if w.channels == 1 {
		g, b = r, r
	}
	if w.color == Gray {
		w.to[0] = gray601(r, g, b)
	} else {
		w.to[0], w.to[1], w.to[2] = r, g, b
	}
	w.to = w.to[w.color.Channels():]
}
