// Package plot draws lines, boxes and text into an SVG or PNG picture. The meaning of a
// diagram is up to the caller.
package plot

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"strings"
)

// Format is a picture format.
type Format string

// The formats supported by New.
const (
	SVG Format = "svg"
	PNG Format = "png"
)

// ErrFormat reports that a file name or value does not name one of the formats.
var ErrFormat = errors.New("must end in .svg or .png")

// FormatOf returns the format for a file name's extension.
func FormatOf(path string) (Format, error) {
	switch f := Format(strings.ToLower(strings.TrimPrefix(filepath.Ext(path), "."))); f {
	case SVG, PNG:
		return f, nil
	}
	return "", ErrFormat
}

// Spot is a point, in pixels from the upper left corner.
type Spot struct{ X, Y float64 }

// At returns the spot at x, y.
func At(x, y float64) Spot { return Spot{X: x, Y: y} }

// Canvas is a drawing surface. It starts out white; later shapes cover earlier ones.
type Canvas interface {
	// Line joins points with straight strokes of the given width in pixels.
	Line(points []Spot, c color.RGBA, width float64, dashed bool)
	Disc(at Spot, radius float64, c color.RGBA)
	// Box fills the rectangle with two opposite corners.
	Box(from, to Spot, c color.RGBA)
	// Text writes words on the baseline at. anchor is the part of the text placed there: 0
	// its start, 1/2 its middle, 1 its end.
	Text(at Spot, anchor float64, c color.RGBA, words string)
	// Encode writes the picture in its format.
	Encode(w io.Writer) error
}

// New returns an empty picture of a size in pixels.
func New(f Format, width, height int) (Canvas, error) {
	switch f {
	case SVG:
		return newSVG(width, height), nil
	case PNG:
		return newRaster(width, height), nil
	}
	return nil, fmt.Errorf("%w, not %q", ErrFormat, f)
}

// Step returns 1, 2 or 5 times a power of ten, at least about v: a readable distance
// between the grid lines of an axis.
func Step(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v*0.999 {
			return m * power
		}
	}
	return 10 * power
}
