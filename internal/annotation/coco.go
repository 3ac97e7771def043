package annotation

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/batchfs/batchfs/internal/target"
)

// findCOCO finds files like annotations/instances_train2017.json beside train2017. Objects come
// from instances or, if keypoints are wanted, from person_keypoints.
func (f *finder) findCOCO() (bool, error) {
	find := func(kind string) string {
		name := kind + "_" + filepath.Base(f.Images) + ".json"
		for _, above := range []string{dirOf(f.Images), dirOf(dirOf(f.Images))} {
			if file := join(above, "annotations", name); f.isFile(file) {
				return file
			}
		}
		return ""
	}
	persons, captions := find("person_keypoints"), find("captions")
	objects := cmp.Or(find("instances"), persons, find("panoptic"))
	f.Has[target.Boxes], f.Has[target.Masks] = objects != "", objects != ""
	f.Has[target.Keypoints], f.Has[target.Text] = persons != "", captions != ""
	if f.Kinds[target.Keypoints] {
		objects = cmp.Or(persons, objects)
	}
	if objects != "" && !f.Kinds[target.Text] {
		captions = ""
	}
	files := slices.DeleteFunc([]string{objects, captions}, func(file string) bool { return file == "" })
	return len(files) > 0, f.readCOCO(files)
}

// readCOCO reads files of COCO. Only one of them may have objects.
func (f *finder) readCOCO(files []string) error {
	objects := ""
	for _, file := range files {
		c := &coco{finder: f, file: file, images: map[int64]cocoImage{}, drawn: f.Kinds[target.Masks] && f.Masks == nil}
		if err := c.read(); err != nil {
			return err
		}
		if !c.objects {
			continue
		}
		if objects != "" {
			return fmt.Errorf("%s: it has objects, and %s has others; name one of them", file, objects)
		}
		objects = file
	}
	return nil
}

// coco is the state of reading a COCO file.
type coco struct {
	*finder
	file       string
	images     map[int64]cocoImage // by id
	categories []cocoCategory      // by id
	objects    bool                // the file has objects
	drawn      bool                // masks are drawn from the objects
	json       jsonReader
	entry      cocoEntry
}

// cocoImage is an image of the file.
type cocoImage struct {
	number        int32
	height, width int32
}

// cocoCategory is a kind of object.
type cocoCategory struct {
	id        whole
	name      string
	keypoints int
}

// read reads images and categories first, although they usually follow the annotations.
func (c *coco) read() error {
	c.part(c.file)
	type lists = map[string]func(k int, text []byte) error
	err := c.readLists(c.file, lists{"images": c.image, "categories": c.category})
	if err == nil && len(c.images) == 0 {
		err = fmt.Errorf("%s: it has no list of images, as COCO has", c.file)
	}
	if err == nil {
		err = c.order()
	}
	if err != nil {
		return err
	}
	return c.readLists(c.file, lists{"annotations": c.annotation})
}

// image reads one of the images.
func (c *coco) image(k int, text []byte) error {
	var id whole
	var name string
	var height, width int
	d := &c.json
	err := d.readObject(text, func(key string) (err error) {
		switch key {
		case "id":
			id, err = d.whole()
		case "file_name":
			name, err = d.text(key)
		case "height":
			err = d.extent(&height)
		case "width":
			err = d.extent(&width)
		default:
			err = d.Skip()
		}
		return err
	})
	if err != nil {
		return err
	}
	if name == "" || len(name) > maxName {
		return errors.New("it has no file_name")
	}
	name = c.nameOf(path.Clean(name))
	number, twice := c.finder.image(name, height, width, false)
	other, taken := c.images[id.n]
	switch {
	case !id.ok:
		d.complain("its id is no whole number")
	case taken: // it is unclear which of them the annotations mean
		d.complain("its id %d is that of another image", id.n)
		c.Builder.Bad(int(other.number), fmt.Sprintf("%s: two of images have the id %d", c.file, id.n))
	case twice:
		d.complain("its file_name is that of another image")
	}
	if d.bad != "" {
		c.Builder.Bad(number, c.file+": "+d.at("images", k))
	}
	if id.ok && !taken {
		c.images[id.n] = cocoImage{int32(number), int32(height), int32(width)}
	}
	return nil
}

const maxName = 4095 // bytes of a path

// category reads one of the categories.
func (c *coco) category(_ int, text []byte) error {
	var one cocoCategory
	d := &c.json
	err := d.readObject(text, func(key string) (err error) {
		switch key {
		case "id":
			one.id, err = d.whole()
		case "name":
			one.name, err = d.text(key)
		case "keypoints":
			err = d.array(func(int) error { one.keypoints++; return d.Skip() })
		default:
			err = d.Skip()
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case !one.id.ok:
		return errors.New("its id is no whole number")
	case d.bad != "":
		return errors.New(d.bad)
	case one.keypoints > maxKeypoints:
		return fmt.Errorf("it has more than %d keypoints", maxKeypoints)
	}
	c.categories = append(c.categories, one)
	return nil
}

// order numbers the categories in the order of their ids.
func (c *coco) order() error {
	slices.SortFunc(c.categories, func(a, b cocoCategory) int { return cmp.Compare(a.id.n, b.id.n) })
	var names []string
	for k, one := range c.categories {
		if k > 0 && c.categories[k-1].id == one.id {
			return fmt.Errorf("%s: two categories have the id %d", c.file, one.id.n)
		}
		names = append(names, one.name)
	}
	if names != nil {
		c.Classes = names
	}
	if names != nil && c.drawn {
		if len(names) >= target.NoClass {
			return fmt.Errorf("%s: masks are drawn of at most %d categories, and it has %d", c.file, target.NoClass-1, len(names))
		}
		c.MaskClasses = append([]string{"background"}, names...)
		c.Values = nil
		for class := range int32(len(c.MaskClasses)) {
			c.Values = append(c.Values, class) // larger values have no class
		}
	}
	return nil
}

// label returns the label of a category.
func (c *coco) label(category int64) (label int, known bool) {
	return slices.BinarySearchFunc(c.categories, category, func(one cocoCategory, id int64) int { return cmp.Compare(one.id.n, id) })
}

// cocoEntry is an annotation.
type cocoEntry struct {
	id, image, category whole
	box                 target.Box
	hasBox              bool
	flags               target.Flags
	keypoints           []float64
	segmentation        segmentation
	caption             []byte // JSON; nil: none
	file                string // of a panoptic mask; "": none
	segments            []cocoEntry
}

// annotation reads one annotation.
func (c *coco) annotation(k int, text []byte) error {
	e, d := &c.entry, &c.json
	*e = cocoEntry{keypoints: e.keypoints[:0], segmentation: e.segmentation}
	e.segmentation.reset()
	if err := d.readObject(text, func(key string) error { return c.field(e, key) }); err != nil {
		return err
	}
	if !e.image.ok {
		return errors.New("its image_id is no whole number")
	}
	image, known := c.images[e.image.n]
	if !known {
		c.Strays++
		return nil
	}
	switch {
	case e.caption != nil:
		if c.Kinds[target.Text] {
			c.Builder.Text(int(image.number), e.caption)
		}
	case e.segments != nil || e.file != "":
		c.objects = true
		c.panoptic(e, int(image.number))
	default:
		c.objects = true
		c.instance(e, image)
	}
	if d.bad != "" {
		c.Builder.Bad(int(image.number), c.file+": "+d.at("annotations", k))
	}
	return nil
}

// field reads a field of an annotation, or of a segment of one.
func (c *coco) field(e *cocoEntry, key string) (err error) {
	d := &c.json
	switch key {
	case "id":
		e.id, err = d.whole()
	case "image_id":
		e.image, err = d.whole()
	case "category_id":
		e.category, err = d.whole()
	case "bbox":
		e.hasBox, c.Has[target.Boxes] = true, true
		e.box, err = d.box(key)
	case "iscrowd":
		err = d.flag(key, &e.flags, target.Crowd)
	case "ignore":
		err = d.flag(key, &e.flags, target.Ignore)
	case "keypoints":
		if c.Has[target.Keypoints] = true; !c.Kinds[target.Keypoints] {
			return d.Skip()
		}
		e.keypoints, err = d.coordinates(key, e.keypoints, 3*maxKeypoints)
	case "segmentation":
		if c.Has[target.Masks] = true; !c.drawn {
			return d.Skip()
		}
		err = d.segmentation(&e.segmentation)
	case "caption":
		c.Has[target.Text] = true
		var caption string
		if caption, err = d.text(key); err == nil {
			e.caption = textOf("captions", caption)
		}
	case "file_name":
		e.file, err = d.text(key)
	case "segments_info":
		c.Has[target.Masks] = true
		err = d.array(d.most(maxObjects, func(int) error {
			var s cocoEntry
			err := d.object(func(key string) error { return c.field(&s, key) })
			e.segments = append(e.segments, s)
			return err
		}))
	default:
		err = d.Skip()
	}
	return err
}

// instance adds an annotation of an object.
func (c *coco) instance(e *cocoEntry, image cocoImage) {
	d, number := &c.json, int(image.number)
	o := c.objectOf(e)
	if d.bad != "" {
		return
	}
	if points := c.pointsOf(e, int(o.Label)); points != nil && d.bad == "" {
		o.Keypoints = points
	}
	if c.drawn {
		s := e.segmentation.shape(d, int(image.height), int(image.width))
		if s.Class = o.Label + 1; e.flags&target.Crowd != 0 {
			s.Class = -1
		}
		if d.bad == "" && (s.Polygons != nil || s.Runs != nil) {
			c.Builder.Shape(number, s)
		}
	}
	if d.bad == "" && e.hasBox {
		c.Builder.Object(number, o)
	}
}

// objectOf makes an object from an annotation, without its keypoints.
func (c *coco) objectOf(e *cocoEntry) target.Object {
	label, known := c.label(e.category.n)
	switch {
	case !e.id.ok:
		c.json.complain("its id is no whole number")
	case !e.category.ok:
		c.json.complain("its category_id is no whole number")
	case !known:
		c.json.complain("there is no category %d", e.category.n)
	}
	return target.Object{Box: e.box, Label: int32(label), ID: e.id.n, Flags: e.flags}
}

// pointsOf returns the keypoints of an annotation; nil if there are none, or if none are wanted.
func (c *coco) pointsOf(e *cocoEntry, label int) (points []target.Keypoint) {
	n := len(e.keypoints)
	if n == 0 {
		return nil
	}
	if most := c.categories[label].keypoints; n%3 != 0 || most > 0 && n != 3*most {
		c.json.complain("it has %d numbers for %d keypoints", n, most)
		return nil
	}
	return c.json.keypoints(e.keypoints)
}

// panoptic adds the segments of a panoptic annotation.
func (c *coco) panoptic(e *cocoEntry, number int) {
	if e.file == "" {
		c.json.complain("it has no file_name")
		return
	}
	if c.drawn {
		if c.Masks == nil {
			c.Masks = &Masks{Path: strings.TrimSuffix(c.file, filepath.Ext(c.file)), Panoptic: true}
			c.MaskClasses, c.Values = nil, nil
		}
		c.Builder.Mask(number, path.Clean(e.file))
	}
	var objects []target.Object
	for k := range e.segments {
		o := c.objectOf(&e.segments[k])
		if e.segments[k].hasBox {
			objects = append(objects, o)
		}
	}
	if c.json.bad != "" {
		return
	}
	for _, o := range objects {
		c.Builder.Object(number, o)
	}
}

// maxKeypoints limits the keypoints of one object.
const maxKeypoints = 1024
