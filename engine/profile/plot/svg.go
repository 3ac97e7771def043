package plot

import (
	"encoding/xml"
	"fmt"
	"image/color"
	"io"
	"math"
	"strings"
)

// svg is a canvas of SVG elements.
type svg struct {
	width, height int
	body          strings.Builder
}

func newSVG(width, height int) *svg { return &svg{width: width, height: height} }

func hex(c color.RGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }

func (s *svg) Line(points []Spot, c color.RGBA, width float64, dashed bool) {
	fmt.Fprintf(&s.body, `<polyline fill="none" stroke="%s" stroke-width="%g" stroke-linejoin="round"`, hex(c), width)
	if dashed {
		s.body.WriteString(` stroke-dasharray="7 5"`)
	}
	s.body.WriteString(` points="`)
	for i, p := range points {
		if i > 0 {
			s.body.WriteByte(' ')
		}
		fmt.Fprintf(&s.body, "%.1f,%.1f", p.X, p.Y)
	}
	s.body.WriteString("\"/>\n")
}

func (s *svg) Disc(at Spot, radius float64, c color.RGBA) {
	fmt.Fprintf(&s.body, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%g\" fill=\"%s\"/>\n", at.X, at.Y, radius, hex(c))
}

func (s *svg) Box(from, to Spot, c color.RGBA) {
	fmt.Fprintf(&s.body, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n",
		min(from.X, to.X), min(from.Y, to.Y), math.Abs(to.X-from.X), math.Abs(to.Y-from.Y), hex(c))
}

func (s *svg) Text(at Spot, anchor float64, c color.RGBA, words string) {
	name := "start"
	switch anchor {
	case 0.5:
		name = "middle"
	case 1:
		name = "end"
	}
	fmt.Fprintf(&s.body, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">`, at.X, at.Y, name, hex(c))
	_ = xml.EscapeText(&s.body, []byte(words)) // a Builder does not fail
	s.body.WriteString("</text>\n")
}

func (s *svg) Encode(w io.Writer) error {
	_, err := fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">
<rect width="100%%" height="100%%" fill="#ffffff"/>
%s</svg>
`, s.width, s.height, s.width, s.height, s.body.String())
	return err
}
