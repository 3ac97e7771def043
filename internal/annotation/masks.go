package annotation

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/batchfs/batchfs/internal/store"
	"github.com/batchfs/batchfs/internal/target"
)

// maskEndings are what may follow the image's name in the name of a mask. Some are refused when
// they are read.
var maskEndings = strings.Fields(".jpg .png _mask.png _masks.png _seg.png _segmentation.png _label.png _labels.png _gt.png .bmp .pgm")

// maskFolders are the usual folders of masks beside one of images.
func maskFolders() (all []folder) {
	for _, word := range []string{"images", "image", "imgs", "img"} {
		for _, other := range strings.Fields("masks mask annotations labels label segmentation segmentations gt groundtruth SegmentationClass") {
			all = append(all, folder{word, other, true, masksOf("")})
		}
	}
	return all
}

// masksIn uses the masks in a folder. ending follows the image's name in their names; "": the most
// frequent of maskEndings.
func (f *finder) masksIn(dir, ending string) (bool, error) {
	endings := maskEndings
	if ending != "" {
		endings = []string{ending}
	}
	var names []string
	for _, e := range endings {
		some, err := f.files(dir, e, namesBelow)
		if err != nil {
			return false, err
		}
		if len(some) > 0 && len(some) >= len(names) { // _mask.png also ends with .png
			names, ending = some, e
		}
	}
	if names == nil {
		return false, nil
	}
	if f.Naming, f.Has[target.Masks] = byStem, true; !f.Kinds[target.Masks] {
		return true, nil
	}
	f.Masks = &Masks{Path: dir, Ending: ending}
	f.part(join(dir, "*"+ending))
	f.MaskClasses = cityClasses(ending)
	for _, name := range names {
		image, _ := f.image(imageOf(name, ending), 0, 0, false)
		f.Builder.Mask(image, name)
	}
	return true, nil
}

// mapLabels sets how values are mapped: by trainIDs, or by a file; "": not at all.
func (f *Found) mapLabels(by string) error {
	switch by {
	case "":
		return nil
	case trainIDs:
		if f.Values = f.Masks.trainIDs(); f.Values == nil {
			return fmt.Errorf("%s: trainids are made of masks whose names end in %s, as those of Cityscapes, and this is %s", f.Images, labelIDs, f.Layout)
		}
		f.MaskClasses = cityTrained
		return nil
	}
	if store.IsURL(by) {
		return fmt.Errorf("%s: a map of labels is a file of this machine", store.Public(by))
	}
	text, err := (&places{}).readOne(by)
	if err != nil {
		return err
	}
	if f.Values, err = parseLabelMap(string(text)); err != nil {
		return fmt.Errorf("%s: %w", by, err)
	}
	f.MaskClasses = nil
	return nil
}

// maxValue is the largest value that a map may contain: that of a 16-bit mask.
const maxValue = 1<<16 - 1

// parseLabelMap reads lines with a value and its class. Values without a line, or with class -1,
// have no class.
func parseLabelMap(text string) (values []int32, err error) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		value, bad := strconv.Atoi(words[0])
		class, bad2 := strconv.ParseInt(words[len(words)-1], 10, 32)
		if bad != nil || bad2 != nil || len(words) != 2 || value < 0 || value > maxValue || class < -1 {
			return nil, fmt.Errorf("line %d must be a value from 0 to %d and its class, such as 7 0; -1 is no class", number, maxValue)
		}
		for len(values) <= value {
			values = append(values, -2)
		}
		if values[value] != -2 {
			return nil, fmt.Errorf("line %d: the value %d is there twice", number, value)
		}
		values[value] = int32(class)
	}
	for k, class := range values {
		values[k] = max(class, -1)
	}
	if values == nil {
		return nil, fmt.Errorf("it is empty")
	}
	return values, nil
}
