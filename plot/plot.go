// Package plot draws lines, boxes and words into a picture, an SVG or a PNG file.
// What a diagram means is its caller's business.
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

// Format is a format of pictures.
type Format string

// The formats that New draws.
const (
	SVG Format = "svg"
	PNG Format = "png"
)

// ErrFormat: something, such as a file's name, does not name one of the formats.
var ErrFormat = errors.New("must end in .svg or .png")

// FormatOf is the format that a file's name asks for.
func FormatOf(path string) (Format, error) {
	switch f := Format(strings.ToLower(strings.TrimPrefix(filepath.Ext(path), "."))); f {
	case SVG, PNG:
		return f, nil
	}
	return "", ErrFormat
}

// Spot is a place, in pixels from the upper left corner.
type Spot struct{ X, Y float64 }

// At is a place.
func At(x, y float64) Spot { return Spot{X: x, Y: y} }

// Canvas is what a picture is drawn on. It begins white; what is drawn later covers
// what was drawn before.
type Canvas interface {
	// Line joins points by straight strokes of a width in pixels.
	Line(points []Spot, c color.RGBA, width float64, dashed bool)
	Disc(at Spot, radius float64, c color.RGBA)
	// Box fills the rectangle between two of its corners.
	Box(from, to Spot, c color.RGBA)
	// Text stands on at; anchor is which part of it does: 0 its start, 1/2 its middle, 1 its end.
	Text(at Spot, anchor float64, c color.RGBA, words string)
	// Encode writes the picture as a file of its format.
	Encode(w io.Writer) error
}

// New is an empty picture of a size in pixels.
func New(f Format, width, height int) (Canvas, error) {
	switch f {
	case SVG:
		return newSVG(width, height), nil
	case PNG:
		return newRaster(width, height), nil
	}
	return nil, fmt.Errorf("%w, not %q", ErrFormat, f)
}

// Step is 1, 2 or 5 times a power of ten, at least about v: a distance of the lines of
// an axis that people can read.
func Step(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v*0.999 {
			return m * power
		}
	}
	return 10 * power
}
