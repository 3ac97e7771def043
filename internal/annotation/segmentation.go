package annotation

import (
	"slices"

	"github.com/go-faster/jx"

	"github.com/batchfs/batchfs/internal/target"
)

const (
	maxPoints = 1 << 20 // of all polygons of one object
	maxRuns   = 1 << 22 // of one object
	maxPixels = 1 << 28 // of a mask of runs
)

// segmentation is the shape of an object as COCO describes it: polygons, or runs.
type segmentation struct {
	numbers []float64 // of all polygons
	ends    []int     // where each polygon ends
	runs    []uint32
	size    []float64 // height and width that the runs cover
	isRuns  bool
}

func (s *segmentation) reset() {
	s.numbers, s.ends, s.runs, s.size, s.isRuns = s.numbers[:0], s.ends[:0], s.runs[:0], s.size[:0], false
}

// segmentation reads a list of polygons, or an object with runs.
func (d *jsonReader) segmentation(s *segmentation) error {
	if d.Next() != jx.Object {
		return d.array(d.most(maxPoints, func(int) (err error) {
			s.numbers, err = d.coordinates("a polygon", s.numbers, 2*maxPoints)
			s.ends = append(s.ends, len(s.numbers))
			return err
		}))
	}
	s.isRuns = true
	return d.object(func(key string) (err error) {
		switch {
		case key == "size":
			s.size, err = d.coordinates(key, s.size, 2)
		case key != "counts":
			err = d.Skip()
		case d.Next() == jx.String:
			var text []byte
			if text, err = d.StrBytes(); err == nil && !s.unpack(text) {
				d.complain("its counts are no runs")
			}
		default:
			err = d.array(func(int) error {
				w, err := d.whole()
				if !w.ok || !s.add(w.n) {
					d.complain("its counts are no runs")
				}
				return err
			})
		}
		return err
	})
}

// add adds the length of a run, which may be 0.
func (s *segmentation) add(n int64) bool {
	ok := n >= 0 && n <= maxPixels && len(s.runs) < maxRuns
	if ok {
		s.runs = append(s.runs, uint32(n))
	}
	return ok
}

// unpack reads COCO's text form of runs: numbers of five bits per character, the lowest bits first;
// from the fourth on, each is the difference to the one two before.
func (s *segmentation) unpack(text []byte) bool {
	for len(text) > 0 {
		var n int64
		for shift := 0; ; shift += 5 {
			if len(text) == 0 || text[0] < 48 || text[0] > 111 || shift > 30 {
				return false
			}
			c := int64(text[0]) - 48
			text = text[1:]
			n |= (c & 31) << shift
			if c&32 != 0 {
				continue
			}
			if c&16 != 0 {
				n |= -1 << (shift + 5)
			}
			break
		}
		if k := len(s.runs); k > 2 {
			n += int64(s.runs[k-2])
		}
		if !s.add(n) {
			return false
		}
	}
	return true
}

// shape is the object's shape in an image of a size; 0: unknown.
func (s *segmentation) shape(d *jsonReader, height, width int) (shape target.Shape) {
	if s.isRuns {
		return s.shapeOfRuns(d, height, width)
	}
	first := 0
	for _, end := range s.ends {
		n := end - first
		if n%2 != 0 || n < 6 {
			d.complain("a polygon has %d numbers, which are not three points or more", n)
			return target.Shape{}
		}
		shape.Polygons = append(shape.Polygons, s.numbers[first:end])
		first = end
	}
	return shape
}

func (s *segmentation) shapeOfRuns(d *jsonReader, height, width int) (shape target.Shape) {
	if len(s.size) != 2 || s.size[0] < 1 || s.size[1] < 1 {
		d.complain("its runs have no size")
		return shape
	}
	h, w := int64(s.size[0]), int64(s.size[1])
	sum := int64(0)
	for _, n := range s.runs {
		sum += int64(n)
	}
	switch {
	case height > 0 && width > 0 && (h != int64(height) || w != int64(width)):
		d.complain("its runs are of %d x %d pixels, and the image of %d x %d", h, w, height, width)
	case h*w > maxPixels:
		d.complain("its runs are of %d x %d pixels, which is too large", h, w)
	case sum != h*w:
		d.complain("its runs are %d pixels, and not %d x %d", sum, h, w)
	default:
		shape.Runs = slices.Clip(s.runs)
	}
	return shape
}
