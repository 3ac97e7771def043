package annotation

import (
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/batchfs/batchfs/internal/target"
)

// vocClasses are the classes of Pascal VOC, in its order.
var vocClasses = strings.Fields("aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse motorbike person pottedplant sheep sofa train tvmonitor")

// vocMasks is the folder of Pascal VOC's masks.
const vocMasks = "SegmentationClass"

func vocMaskClasses() []string { return append([]string{"background"}, vocClasses...) }

// vocFolders are those beside JPEGImages.
var vocFolders = []folder{
	{"JPEGImages", vocMasks, true, func(f *finder, dir string) (bool, error) {
		found, err := f.masksIn(dir, ".png")
		if found {
			f.MaskClasses = vocMaskClasses()
		}
		return found, err
	}},
	{"JPEGImages", "Annotations", false, objectsOf(".xml")},
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
}

// parseVOC reads a file. The format counts pixels from 1, and a box includes its last pixel.
func parseVOC(text []byte) imageFile {
	var v vocFile
	if err := xml.Unmarshal(text, &v); err != nil {
		return imageFile{bad: err.Error()}
	}
	h, w := v.Size.Height, v.Size.Width
	if h < 0 || w < 0 || h > math.MaxInt32 || w > math.MaxInt32 {
		return imageFile{bad: fmt.Sprintf("the size is %d x %d", h, w)}
	}
	p := imageFile{height: h, width: w}
	if len(v.Objects) > maxObjects {
		p.bad = errManyObjects.Error()
		return p
	}
	for _, o := range v.Objects { // also of a bad file: its repair must not change the labels of others
		p.classes = append(p.classes, o.Name)
	}
	bad := func(k int, rule string) imageFile {
		p.objects, p.bad = nil, fmt.Sprintf("object[%d]: %s", k, rule)
		return p
	}
	for k, o := range v.Objects {
		if o.Box == nil {
			return bad(k, "it has no bndbox")
		}
		var at [4]float64
		for i, text := range []string{o.Box.XMin, o.Box.YMin, o.Box.XMax, o.Box.YMax} {
			var err error
			if at[i], err = strconv.ParseFloat(strings.TrimSpace(text), 64); err != nil || !isCoordinate(at[i]) {
				return bad(k, "bndbox has something that is no coordinate")
			}
		}
		if at[2] < at[0]-1 || at[3] < at[1]-1 {
			return bad(k, "bndbox has a negative size")
		}
		one := target.Object{Box: target.Box{float32(at[0] - 1), float32(at[1] - 1), float32(at[2]), float32(at[3])}, ID: int64(k)}
		if o.Difficult != 0 {
			one.Flags = target.Difficult
		}
		p.objects = append(p.objects, one)
	}
	return p
}
