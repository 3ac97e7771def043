package target

import (
	"fmt"
	"strconv"

	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/option"
)

// A Format says what the four numbers of a box are.
type Format uint8

const (
	XYXY   Format = iota // two corners
	XYWH                 // the first corner, width and height
	CXCYWH               // the centre, width and height
)

var formats = []string{"xyxy", "xywh", "cxcywh"}

// String is the format's name as users write it.
func (f Format) String() string { return formats[f] }

// Set implements [flag.Value].
func (f *Format) Set(name string) error {
	return option.Named(f, "box format", formats, name)
}

// Rules say which boxes a batch has, and how.
type Rules struct {
	Format        Format
	NoClip        bool    // boxes may reach beyond the image
	MinArea       float64 // of the visible part of a box in the result, in the result's pixels
	MinVisibility float64 // the visible area as a share of the whole box
	Max           int     // boxes per sample; the first ones are used; 0: any number
}

// Validate returns an *option.Error for the first bad rule.
func (r Rules) Validate() error {
	switch {
	case r.Max < 0:
		return option.AtLeast("max boxes", int64(r.Max), 0)
	case !(r.MinArea >= 0):
		return &option.Error{Field: "min box area", Rule: "at least 0", Value: fmt.Sprint(r.MinArea)}
	case !(r.MinVisibility >= 0 && r.MinVisibility <= 1):
		return &option.Error{Field: "min visibility", Rule: "0 to 1", Value: strconv.FormatFloat(r.MinVisibility, 'g', -1, 64)}
	}
	return nil
}

// A View is how an annotated image is shown.
type View struct {
	Transform     resample.Transform
	Height, Width int   // coordinates are relative to these
	Orientation   uint8 // EXIF orientation of the coordinates: 1 if they refer to the pixels that are transformed
}

// at returns where a point of the annotated image is in the result, before it is mirrored.
func (v *View) at(x, y float64) (float64, float64) {
	switch v.Orientation { // the edges from which upright coordinates count
	case 2, 8:
		x = float64(v.Width) - x
	case 3, 7:
		x, y = float64(v.Width)-x, float64(v.Height)-y
	case 4, 6:
		y = float64(v.Height) - y
	}
	if v.Orientation >= 5 {
		x, y = y, x
	}
	return v.Transform.X.Output(x), v.Transform.Y.Output(y)
}

// mirrored is x after the flip.
func (v *View) mirrored(x float64) float64 {
	if v.Transform.Flip {
		return float64(v.Transform.X.N) - x
	}
	return x
}

// box returns a box in the result's pixels, as two corners.
func (v *View) box(b Box) (x0, y0, x1, y1 float64) {
	x0, y0 = v.at(float64(b[0]), float64(b[1]))
	x1, y1 = v.at(float64(b[2]), float64(b[3]))
	x0, x1 = v.mirrored(x0), v.mirrored(x1)
	return min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)
}

// Show returns a box in a view, by the rules. ok is false if they drop it: if it has no area, or
// none in the image, or too little.
func (r Rules) Show(b Box, v *View) (shown Box, ok bool) {
	if b.area() == 0 {
		return Box{}, false
	}
	x0, y0, x1, y1 := v.box(b)
	whole := (x1 - x0) * (y1 - y0)
	h, w := v.Transform.Size()
	cx0, cy0, cx1, cy1 := max(x0, 0), max(y0, 0), min(x1, float64(w)), min(y1, float64(h))
	area := (cx1 - cx0) * (cy1 - cy0)
	if !(cx1 > cx0 && cy1 > cy0) || area < r.MinArea || area < r.MinVisibility*whole {
		return Box{}, false
	}
	if !r.NoClip {
		x0, y0, x1, y1 = cx0, cy0, cx1, cy1
	}
	return r.written(x0, y0, x1, y1), true
}

// Place is Show for what belongs to a visible box: nothing is dropped, and a part outside of the
// image is 0.
func (r Rules) Place(b Box, v *View) Box {
	r.MinArea, r.MinVisibility = 0, 0
	shown, _ := r.Show(b, v)
	return shown
}

func (r Rules) written(x0, y0, x1, y1 float64) Box {
	switch r.Format {
	case XYWH:
		return Box{float32(x0), float32(y0), float32(x1 - x0), float32(y1 - y0)}
	case CXCYWH:
		return Box{float32((x0 + x1) / 2), float32((y0 + y1) / 2), float32(x1 - x0), float32(y1 - y0)}
	}
	return Box{float32(x0), float32(y0), float32(x1), float32(y1)}
}

// Corners are the two corners of a box in the format.
func (f Format) Corners(b Box) Box {
	switch f {
	case XYWH:
		return Box{b[0], b[1], b[0] + b[2], b[1] + b[3]}
	case CXCYWH:
		return Box{b[0] - b[2]/2, b[1] - b[3]/2, b[0] + b[2]/2, b[1] + b[3]/2}
	}
	return b
}

// Point returns where a keypoint is in a view. It is 0, 0, 0 if it is outside the image or not
// labelled.
func (v *View) Point(p Keypoint) Keypoint {
	x, y := v.at(float64(p.X), float64(p.Y))
	x = v.mirrored(x)
	h, w := v.Transform.Size()
	if !(p.V > 0 && x >= 0 && y >= 0 && x <= float64(w) && y <= float64(h)) {
		return Keypoint{}
	}
	return Keypoint{float32(x), float32(y), p.V}
}
