// Package target knows what a sample has besides its image and its label: a mask, boxes, keypoints,
// text, arrays. Each kind is one field of a sample, with a reader that finds it (package
// annotation), and a geometric rule: how it changes under the transform of the image.
//
// Annotations are kept in a table by sample, which is made once, when a dataset is mounted, and
// never changes. So the number of boxes in a batch follows from the plan and the table, like all
// sizes, without decoding anything. Only masks have pixels, which are made like those of images.
package target

// A Kind is one kind of target.
type Kind uint8

const (
	Masks     Kind = iota // a class for each pixel
	Boxes                 // of objects, with a label each
	Keypoints             // of the same objects
	Text                  // a JSON object for each sample
	Arrays                // numbers, from columns of a manifest
	NumKinds
)

// Flags say what is special about an object. They are the values of .boxes.flags.npy.
type Flags uint8

const (
	Crowd     Flags = 1 << iota // it stands for many objects
	Ignore                      // neither finding nor missing it counts
	Difficult                   // it is hard to recognise
)

// A Keypoint is a place in an image, in pixels, and whether it is visible: 0 not labelled, 1 not
// visible, 2 visible, as in COCO.
type Keypoint struct{ X, Y, V float32 }

// A Box is x0, y0, x1, y1 in continuous pixels: a pixel covers one unit, and the image begins at 0.
type Box [4]float32

func (b Box) area() float64 {
	w, h := float64(b[2])-float64(b[0]), float64(b[3])-float64(b[1])
	if w <= 0 || h <= 0 {
		return 0
	}
	return w * h
}

// An Object is one annotated object of an image.
type Object struct {
	Box       Box
	Visible   *Box  // its part that is not hidden; nil: unknown
	Label     int32 // 0..C-1
	ID        int64 // of the annotation, or its number in the image
	Flags     Flags
	Keypoints []Keypoint // nil: none
}

// A Shape is a part of a mask that is drawn: later ones cover earlier ones.
type Shape struct {
	Class    int32
	Polygons [][]float64 // x, y, x, y, ... in pixels, each closed; nil: Runs
	Runs     []uint32    // lengths of runs of 0 and 1 in turn, column by column, as in COCO
}
