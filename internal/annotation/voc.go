package annotation

import (
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/batchfs/batchfs/internal/target"
)

// vocClasses are those of Pascal VOC, in its order.
var vocClasses = strings.Fields("aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse motorbike person pottedplant sheep sofa train tvmonitor")

// findVOC finds Annotations and SegmentationClass beside JPEGImages.
func (f *finder) findVOC() (bool, error) {
	objects, masks := f.beside(f.Images, "jpegimages", "Annotations"), f.beside(f.Images, "jpegimages", "SegmentationClass")
	if objects == "" && masks == "" {
		return false, nil
	}
	f.Naming = byStem
	if masks != "" {
		if _, err := f.masksIn(masks, ".png"); err != nil {
			return false, err
		}
		f.MaskClasses = append([]string{"background"}, vocClasses...)
	}
	if objects != "" {
		return true, f.readVOC(objects)
	}
	return true, nil
}

// readVOC takes the boxes in a folder of XML files.
func (f *finder) readVOC(dir string) error {
	names, err := f.filesOf(dir, ".xml")
	if err != nil || names == nil {
		return err
	}
	f.Naming, f.Has[target.Boxes] = byStem, true
	if !f.Kinds[target.Boxes] {
		return nil
	}
	f.part(join(dir, "*.xml"))
	if f.Classes, err = f.vocNames(dir, names); err != nil {
		return err
	}
	return f.readImages(dir, names, stem, func(text []byte) imageFile {
		v := parseVOC(text)
		objects, bad := v.objects(f.Classes)
		return imageFile{height: v.Size.Height, width: v.Size.Width, objects: objects, bad: bad}
	})
}

// vocNames are the official classes, or, if objects have others, all that there are, by name.
func (f *finder) vocNames(dir string, files []string) ([]string, error) {
	known := map[string]bool{}
	err := each(f, dir, files, parseVOC, func(_ int, v vocFile) {
		for _, o := range v.Objects {
			known[o.Name] = true
		}
	})
	var names []string
	official := true
	for name := range known {
		names, official = append(names, name), official && slices.Contains(vocClasses, name)
	}
	if official {
		return vocClasses, err
	}
	slices.Sort(names)
	return names, err
}

// vocFile is a file of Pascal VOC.
type vocFile struct {
	XMLName xml.Name `xml:"annotation"`
	Size    struct {
		Width  int `xml:"width"`
		Height int `xml:"height"`
	} `xml:"size"`
	Objects []struct {
		Name      string `xml:"name"`
		Difficult int    `xml:"difficult"`
		Box       *struct {
			XMin string `xml:"xmin"`
			YMin string `xml:"ymin"`
			XMax string `xml:"xmax"`
			YMax string `xml:"ymax"`
		} `xml:"bndbox"`
	} `xml:"object"`
	err error
}

func parseVOC(text []byte) (v vocFile) {
	if err := xml.Unmarshal(text, &v); err != nil {
		v = vocFile{err: err}
	}
	if len(v.Objects) > maxObjects {
		v = vocFile{err: errManyObjects}
	}
	if s := &v.Size; s.Width < 0 || s.Height < 0 || s.Width > math.MaxInt32 || s.Height > math.MaxInt32 {
		v = vocFile{err: fmt.Errorf("the size is %d x %d", s.Height, s.Width)}
	}
	return v
}

// objects are those of the file. Pixels are counted from 1 there, and the last is part of the box.
func (v *vocFile) objects(classes []string) (objects []target.Object, bad string) {
	if v.err != nil {
		return nil, v.err.Error()
	}
	for k, o := range v.Objects {
		if o.Box == nil {
			return nil, fmt.Sprintf("object[%d]: it has no bndbox", k)
		}
		var at [4]float64
		for i, text := range []string{o.Box.XMin, o.Box.YMin, o.Box.XMax, o.Box.YMax} {
			var err error
			if at[i], err = strconv.ParseFloat(strings.TrimSpace(text), 64); err != nil || !isCoordinate(at[i]) {
				return nil, fmt.Sprintf("object[%d]: bndbox has something that is no coordinate", k)
			}
		}
		if at[2] < at[0]-1 || at[3] < at[1]-1 {
			return nil, fmt.Sprintf("object[%d]: bndbox has a negative size", k)
		}
		label := slices.Index(classes, o.Name)
		one := target.Object{Box: target.Box{float32(at[0] - 1), float32(at[1] - 1), float32(at[2]), float32(at[3])}, Label: int32(label), ID: int64(k)}
		if o.Difficult != 0 {
			one.Flags = target.Difficult
		}
		objects = append(objects, one)
	}
	return objects, ""
}
