package annotation

import (
	"strings"
)

// adeClasses is the number of ADE20K's classes in the scene parsing benchmark.
const adeClasses = 150

// findADE finds ADEChallengeData2016: objectInfo150.txt, and annotations beside images. There,
// value 0 is everything else, and class 0 has value 1.
func (f *finder) findADE() (bool, error) {
	dir := f.beside(f.Images, "images", "annotations")
	if dir == "" {
		return false, nil
	}
	info := join(dirOf(dir), adeInfo)
	if !f.isFile(info) {
		info = join(dirOf(dirOf(dir)), adeInfo)
	}
	if !f.isFile(info) {
		return false, nil
	}
	text, err := f.readSmall(info)
	if err != nil {
		return false, err
	}
	names, err := f.files(dir, ".png", namesBelow)
	f.takeMasks(dir, ".png", names)
	f.MaskClasses = adeNames(string(text))
	f.Values = []int32{-1}
	for class := range int32(adeClasses) {
		f.Values = append(f.Values, class)
	}
	return true, err
}

const adeInfo = "objectInfo150.txt"

// adeNames returns the classes from objectInfo150.txt, a table whose last column is the name. nil:
// the table has another form.
func adeNames(text string) (names []string) {
	for line := range strings.Lines(text) {
		columns := strings.Split(strings.TrimSpace(line), "\t")
		if name := strings.TrimSpace(columns[len(columns)-1]); len(columns) > 1 && name != "Name" {
			names = append(names, name)
		}
	}
	if len(names) != adeClasses {
		return nil
	}
	return names
}
