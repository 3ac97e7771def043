package annotation

import (
	"strings"
)

// adeClasses is the number of ADE20K's classes in the scene parsing benchmark.
const adeClasses = 150

// adeFolders are those of ADEChallengeData2016, which has objectInfo150.txt.
var adeFolders = []folder{{"images", "annotations", true, func(f *finder, dir string) (bool, error) {
	if f.adeInfo(dir) == "" {
		return false, nil
	}
	found, err := f.masksIn(dir, ".png")
	if found && err == nil {
		err = f.takeADE(dir)
	}
	return found, err
}}}

// adeInfo is the path of objectInfo150.txt above a folder of masks; "": they are not those of
// ADE20K.
func (f *finder) adeInfo(dir string) string {
	for _, above := range []string{dirOf(dir), dirOf(dirOf(dir))} {
		if info := join(above, adeInfo); f.isFile(info) {
			return info
		}
	}
	return ""
}

// takeADE takes the values of masks for those of ADE20K, if they are: value 0 is everything else,
// and class 0 has value 1.
func (f *finder) takeADE(dir string) error {
	info := f.adeInfo(dir)
	if info == "" {
		return nil
	}
	text, err := f.readSmall(info)
	f.MaskClasses = adeNames(string(text))
	f.Values = []int32{-1}
	for class := range int32(adeClasses) {
		f.Values = append(f.Values, class)
	}
	return err
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
