// Package target knows what a sample has besides its image and its label: a mask, boxes,
// keypoints, text, arrays. Each kind is one field of a sample, with a reader that finds it
// (package annotation), and a law of geometry: what becomes of it under the transform of the image.
//
// What annotations say is kept in a table by sample, which is made once, when a dataset is mounted,
// and never changes. So how many boxes a batch has follows from the plan and the table, like all
// sizes, and nothing is decoded to know it. Only masks have pixels, which are made as those of images are.
package target

// A Kind is one kind of target.
type Kind uint8

const (
	Masks     Kind = iota // a class for each pixel
	Boxes                 // of objects, with a label each
	Keypoints             // of the same objects
	Text                  // a JSON object for each sample
	Arrays                // of numbers, of columns of a manifest
	NumKinds
)

// Flags say what is special about an object. They are the values of .boxes.flags.npy.
type Flags uint8

const (
	Crowd     Flags = 1 << iota // it is many objects
	Ignore                      // it counts for nothing, neither as found nor as missed
	Difficult                   // it is hard to recognise
)

// A Keypoint is a place in an image, in pixels, and whether it is visible: 0 not labelled, 1 not
// visible, 2 visible, as in COCO.
type Keypoint struct{ X, Y, V float32 }

// A Box is x0, y0, x1, y1 in continuous pixels: a pixel covers one unit, and the image begins at 0.
type Box [4]float32

// An Object is one annotated object of an image.
type Object struct {
	Box       Box
	Visible   *Box  // what is not hidden of it; nil: not said
	Label     int32 // 0..C-1
	ID        int64 // of the annotation, or its place in the image
	Flags     Flags
	Keypoints []Keypoint // nil: none
}

// A Shape is a part of a mask that is drawn: later ones cover earlier ones.
type Shape struct {
	Class    int32
	Polygons [][]float32 // x, y, x, y, ... in pixels, each closed; nil: Runs
	Runs     []uint32    // lengths of runs of 0 and 1 in turn, column by column, as in COCO
}

// A Builder takes what annotations say, image by image or object by object, in any order, and makes
// the table of a dataset of it. It keeps objects in columns, at most 40 bytes each without
// keypoints. It is not safe for concurrent use.
type Builder struct {
	images []image
	byPath map[string]int
}

type image struct {
	path          string
	height, width int
	oriented      bool
	objects       []Object
	mask          string
	shapes        []Shape
	text          []byte
	bad           string
}

// NewBuilder returns a Builder that knows no image.
func NewBuilder() *Builder { return &Builder{byPath: map[string]int{}} }

// Image returns the number of the image with a path in the dataset; the first call for a path adds it.
// height and width are of the image that was annotated, 0 if that is not said. oriented: where stored
// and upright pixels are both possible, coordinates are of the upright ones.
func (b *Builder) Image(path string, height, width int, oriented bool) int {
	i, known := b.byPath[path]
	if !known {
		i = len(b.images)
		b.byPath[path] = i
		b.images = append(b.images, image{path: path, height: height, width: width, oriented: oriented})
	}
	return i
}

// Has reports whether an image was added.
func (b *Builder) Has(path string) bool { _, known := b.byPath[path]; return known }

// Object adds an object of an image. The Builder keeps none of its memory.
func (b *Builder) Object(image int, o Object) {
	b.images[image].objects = append(b.images[image].objects, o)
}

// Mask says where the mask of an image is, in the dataset of masks.
func (b *Builder) Mask(image int, path string) { b.images[image].mask = path }

// Shape adds a part of the mask of an image, which has no file. The Builder keeps none of its memory.
func (b *Builder) Shape(image int, s Shape) {
	b.images[image].shapes = append(b.images[image].shapes, s)
}

// Text adds the fields of a JSON object to those of an image. A value under a key that is there already
// joins it in a list.
func (b *Builder) Text(image int, object []byte) { b.images[image].text = object }

// Bad says what is wrong with the annotations of an image: file, entry and rule. The first reason counts.
func (b *Builder) Bad(image int, reason string) {
	if b.images[image].bad == "" {
		b.images[image].bad = reason
	}
}
