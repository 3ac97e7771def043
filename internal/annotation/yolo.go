package annotation

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/batchfs/batchfs/internal/target"
)

var yoloFolders = []folder{{"images", "labels", false, objectsOf(".txt")}}

// yolo is what all text files in a folder have in common. Each line is an object: its class; the
// centre, width and height of its box; and its keypoints, if any. Numbers are fractions of the
// image's width and height.
type yolo struct {
	names             []string // nil: classes have no names
	keypoints, values int      // per object, and numbers per keypoint; 0: none
}

// yoloData reads data.yaml, or a list of classes, in a folder or in the two above it.
func (f *finder) yoloData(dir string) (y yolo, err error) {
	for _, above := range []string{dir, dirOf(dir), dirOf(dirOf(dir))} {
		for _, name := range []string{"data.yaml", yoloClasses} {
			file := join(above, name)
			if !f.isFile(file) {
				continue
			}
			text, err := f.readSmall(file)
			if err == nil && strings.HasSuffix(name, ".yaml") {
				err = y.parseYAML(text)
			} else if err == nil {
				y.names = strings.Split(strings.TrimSpace(strings.ReplaceAll(string(text), "\r", "")), "\n")
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", file, err)
			}
			return y, err
		}
	}
	return y, nil
}

// yoloClasses may be among the labels.
const yoloClasses = "classes.txt"

// parseYAML reads data.yaml. It has names as a list, or by number.
func (y *yolo) parseYAML(text []byte) error {
	var data struct {
		Names yaml.Node `yaml:"names"`
		Shape []int     `yaml:"kpt_shape"`
	}
	if err := yaml.Unmarshal(text, &data); err != nil {
		return err
	}
	switch data.Names.Kind {
	case yaml.SequenceNode:
		if err := data.Names.Decode(&y.names); err != nil {
			return err
		}
	case yaml.MappingNode:
		names := map[int]string{}
		if err := data.Names.Decode(&names); err != nil {
			return err
		}
		for k := range len(names) {
			name, known := names[k]
			if !known {
				return fmt.Errorf("names has %d classes, but not %d", len(names), k)
			}
			y.names = append(y.names, name)
		}
	}
	if s := data.Shape; s != nil {
		if len(s) != 2 || s[0] < 1 || s[0] > maxKeypoints || s[1] != 2 && s[1] != 3 {
			return fmt.Errorf("kpt_shape is %d, and not a number of keypoints and 2 or 3", s)
		}
		y.keypoints, y.values = s[0], s[1]
	}
	return nil
}

// parse reads a file of labels.
func (y *yolo) parse(text []byte) imageFile {
	p := imageFile{height: 1, width: 1, oriented: true}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		o, err := y.object(words)
		if len(p.objects) == maxObjects {
			err = errManyObjects
		}
		if err != nil {
			p.objects, p.bad = nil, fmt.Sprintf("line %d: %v", number, err)
			break
		}
		o.ID = int64(len(p.objects))
		p.objects = append(p.objects, o)
	}
	return p
}

// slack is how far a number may exceed 1 through rounding, as in other readers.
const slack = 0.01

// object parses the words of a line. If there are more words than a box needs, and no keypoints,
// they are the corners of a polygon.
func (y *yolo) object(words []string) (o target.Object, err error) {
	class, err := strconv.ParseFloat(words[0], 64)
	if err != nil || class != math.Trunc(class) || class < 0 || class > maxLabel || y.names != nil && int(class) >= len(y.names) {
		return o, fmt.Errorf("%q is no class", words[0])
	}
	var v []float32
	for k, word := range words[1:] {
		n, err := strconv.ParseFloat(word, 64)
		most := 1 + slack
		if y.values == 3 && k >= 4 && (k-4)%3 == 2 {
			most = 2 // says whether a keypoint is visible
		}
		if err != nil || !(n >= 0 && n <= most) {
			return o, fmt.Errorf("%q is no part of the image, from 0 to 1", word)
		}
		v = append(v, float32(n))
	}
	o.Label = int32(class)
	switch {
	case len(v) == 4+y.keypoints*y.values:
		o.Box = target.Box{v[0] - v[2]/2, v[1] - v[3]/2, v[0] + v[2]/2, v[1] + v[3]/2}
		o.Keypoints = y.points(v[4:])
	case y.keypoints == 0 && len(v) >= 6 && len(v)%2 == 0:
		o.Box = target.Box{v[0], v[1], v[0], v[1]}
		for k := 0; k < len(v); k += 2 {
			o.Box = target.Box{min(o.Box[0], v[k]), min(o.Box[1], v[k+1]), max(o.Box[2], v[k]), max(o.Box[3], v[k+1])}
		}
	default:
		return o, fmt.Errorf("it has %d numbers instead of a class and %d", len(words), 4+y.keypoints*y.values)
	}
	return o, nil
}

// points makes keypoints. A keypoint of two numbers is visible unless both are 0.
func (y *yolo) points(v []float32) (points []target.Keypoint) {
	for k := 0; k < len(v); k += y.values {
		p := target.Keypoint{X: v[k], Y: v[k+1], V: 2}
		if y.values == 3 {
			p.V = float32(math.Round(float64(v[k+2])))
		} else if p.X == 0 && p.Y == 0 {
			p.V = 0
		}
		points = append(points, p)
	}
	return points
}
