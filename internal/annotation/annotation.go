// Package annotation opens a dataset with what is annotated of its images. It finds that in the
// layouts in which such datasets are published: folders of masks, Cityscapes and CityPersons, COCO,
// YOLO, Pascal VOC, ADE20K, and the columns of manifests; opens the files that belong to images;
// and joins the two to what is in batches. What looks at every file of a dataset is here, too, with
// the targets or without: [Dataset.Verify] and [Dataset.MakeEntries]. Nothing else decodes images.
package annotation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/store"
	"github.com/batchfs/batchfs/internal/target"
)

// Options say what to look for, and where.
type Options struct {
	Kinds Kinds // kinds to find
	// Files are where annotations are, if not in the usual place of their layout: a .json file of
	// COCO, a folder with one file per image, a pattern of such files (masks/*_mask.png), a .txt
	// file that lists the samples.
	Files []string
	// LabelMap maps the values of masks to classes: "": as the layout does, "trainids", or a file
	// with a value and its class in each line.
	LabelMap string
	// SkipEmpty leaves out images without annotations.
	SkipEmpty bool
	// Source are the options of the dataset of images. Its Logger is told why a stored result is
	// not used, or not stored.
	Source dataset.Options
	// Rules say which boxes are shown, and how.
	Rules target.Rules
	// Ignore is what masks have where there is no image, and no class; nil: what the layout has.
	Ignore *int32
	// Progress, if not nil, reports how many bytes were read.
	Progress func(done, total int64)

	// dir is where what was read is kept, for the next time, and where there is room for what is
	// large. "": neither.
	dir string
}

// Kinds is a set of kinds of targets.
type Kinds [target.NumKinds]bool

var kindNames = [target.NumKinds]string{"masks", "boxes", "keypoints", "text", "arrays"}

// Names are the names of the kinds in the set.
func (k Kinds) Names() (names []string) {
	for kind, has := range k {
		if has {
			names = append(names, kindNames[kind])
		}
	}
	return names
}

// Any reports whether some kind of a name is in the set.
func (k Kinds) Any(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		kind := slices.Index(kindNames[:], name)
		return kind >= 0 && k[kind]
	})
}

// ParseKinds reads names that are separated by commas.
func ParseKinds(text string) (k Kinds, ok bool) {
	for name := range strings.SplitSeq(text, ",") {
		kind := slices.Index(kindNames[:], name)
		if kind < 0 {
			return k, false
		}
		k[kind] = true
	}
	return k, true
}

func kindsOf(kinds ...target.Kind) (k Kinds) {
	for _, kind := range kinds {
		k[kind] = true
	}
	return k
}

// without returns the kinds that the other set lacks.
func (k Kinds) without(other Kinds) (rest Kinds) {
	for kind, has := range k {
		rest[kind] = has && !other[kind]
	}
	return rest
}

// Found is the result of Open.
type Found struct {
	Layout      string   // such as COCO
	Images      string   `json:"-"` // the dataset of the images
	Sources     []string // files that were read, or folders that hold many
	Classes     []string // of objects by label; nil: without names
	MaskClasses []string // of masks by value; nil: without names
	Masks       *Masks   // nil: no masks in files
	Arrays      *Arrays  // nil: none, or not wanted
	// Values maps the values of masks to classes, -1 for none. Values beyond its end have no class.
	// nil: values are classes.
	Values []int32
	Strays int // annotations of images that are not listed
	// Members are fields of the samples of the archive that Images is, which are to be read; see
	// takeMembers.
	Members []string `json:"-"`

	Naming  naming
	Has     Kinds  // kinds that exist
	Parts   uint8  // number of parts read; a sample has an entry in each
	InParts []byte // by image: in how many parts it has an entry

	// Builder has what is said of images. The caller of search closes it.
	Builder *target.Builder `json:"-"`
	options Options
	labels  map[string]int32 // of classes by name; see label
}

// maxParts limits the files, or folders of files, with annotations.
const maxParts = 255

// Masks says where the files of masks are. They form a dataset of their own.
type Masks struct {
	Path     string
	Ending   string // of their names; "": any
	Column   string // of the manifest that Path has; "": it has none
	Field    string // of samples of the archives that Path is; "": it is none. See takeMasks
	Panoptic bool   // values are red + 256 green + 65536 blue
}

// Arrays says where the files of arrays are. The files of each column form a dataset of their own.
type Arrays struct {
	Path    string   // a manifest
	Columns []string // columns with paths, by number
}

// only reports whether a file is a mask.
func (m *Masks) only(path string) bool {
	return strings.HasSuffix(stored(path), m.Ending) && (!m.Panoptic || archive.IsImage(path))
}

// only reports whether an image has an entry in all that was read, and so is a sample.
func (f *Found) only(path string) bool {
	name := f.nameOf(path)
	return f.Builder.Has(name) && f.isSample(f.Builder.Image(name, 0, 0, false))
}

func (f *Found) isSample(image int) bool {
	return f.InParts[image] == f.Parts && (f.Builder.Says(image) || !f.options.SkipEmpty)
}

// part starts a file, or a folder of files.
func (f *Found) part(file string) {
	f.Parts = min(f.Parts, maxParts-1) + 1 // more than maxParts are refused elsewhere
	f.Sources = append(f.Sources, file)
}

// image adds an image to the current part, and returns its number; twice says that the part has it
// already.
func (f *Found) image(name string, height, width int, oriented bool) (image int, twice bool) {
	image = f.Builder.Image(name, height, width, oriented)
	if image == len(f.InParts) {
		f.InParts = append(f.InParts, 0)
	}
	in := &f.InParts[image]
	if twice = *in == f.Parts; *in == f.Parts-1 {
		*in++
	}
	return image, twice
}

// Entries counts the images with an entry in every part.
func (f *Found) Entries() (n int) {
	for image := range f.InParts {
		if f.isSample(image) {
			n++
		}
	}
	return n
}

// example is the name of an image that has an entry; "": none has.
func (f *Found) example() string {
	if f.Builder.Len() == 0 {
		return ""
	}
	return f.Builder.Path(0)
}

// firstName is the temporary label of the first class that is given by name. Once all names are
// known, they get their final numbers. Labels given as numbers are smaller.
const firstName = 1 << 23

// label returns the label of a class given by name.
func (f *Found) label(name string) int32 {
	label, known := f.labels[name]
	if !known {
		label = firstName + int32(len(f.labels))
		if f.labels == nil {
			f.labels = map[string]int32{}
		}
		f.labels[name] = label
	}
	return label
}

// numberNames numbers the classes given by name: as in Classes, or, if Classes lacks one, in the
// order of their names. An object that has no such label is bad: a number would be that of any of
// the names.
func (f *Found) numberNames() {
	names := slices.Sorted(maps.Keys(f.labels))
	if names == nil {
		return
	}
	lacks := func(name string) bool { return !slices.Contains(f.Classes, name) }
	if slices.ContainsFunc(names, lacks) {
		f.Classes = names
	}
	numbers := make([]int32, len(names))
	for number, name := range f.Classes {
		if label, used := f.labels[name]; used {
			numbers[label-firstName] = int32(number)
		}
	}
	f.Builder.Relabel(func(image, k int, label int32) int32 {
		if label >= firstName {
			return numbers[label-firstName]
		}
		f.Builder.Bad(image, fmt.Sprintf("%s: the label of boxes[%d] is no name, but others are, such as %q", strings.Join(f.Sources, ", "), k, names[0]))
		return label
	})
	f.labels = nil
}

// A KindError says that the dataset lacks wanted kinds of targets.
type KindError struct {
	Dataset, Layout string
	Lacks, Has      Kinds
}

func (e *KindError) Error() string {
	has := "nothing else"
	if names := e.Has.Names(); names != nil {
		has = strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s: it has no %s; as %s, it has %s", e.Dataset, strings.Join(e.Lacks.Names(), ", "), e.Layout, has)
}

// A noneError is the error of a dataset without annotations in any known layout.
type noneError struct{ Dataset string }

func (e *noneError) Error() string { return e.Dataset + ": no annotations found" }

// finder is the state of one search.
type finder struct {
	*Found
	Options
	*places
}

// A knownLayout finds and reads what it knows. found is false if nothing looks like it.
type knownLayout struct {
	name string
	find func(*finder) (found bool, err error)
}

var layouts = []knownLayout{
	{"a manifest", (*finder).findManifest}, {"Cityscapes", findBeside(cityFolders)}, {"Pascal VOC", findBeside(vocFolders)},
	{"ADE20K", findBeside(adeFolders)}, {"COCO", (*finder).findCOCO}, {"YOLO", findBeside(yoloFolders)},
	{"a folder of masks", findBeside(maskFolders())}, {"a WebDataset", (*finder).findMembers},
}

// imagesAt returns the path of the dataset of images.
func imagesAt(ctx context.Context, path string, o dataset.Options) (string, error) {
	if store.IsURL(path) {
		return path, nil
	}
	rows, err := dataset.FindRows(ctx, path, o)
	if err != nil {
		return path, err
	}
	if rows != nil {
		return path, rows.Close()
	}
	return imagesIn(path)
}

// find looks for annotations in one layout after another.
func (f *finder) find(path string) error {
	path = store.Public(path)
	lists, coco, others, err := f.splitFiles()
	if err != nil {
		return err
	}
	known := layouts
	if len(coco)+len(others) > 0 {
		given := func(f *finder) (bool, error) { return true, f.readGiven(coco, others) }
		known = []knownLayout{{"the annotations that were named", given}}
	}
	for _, l := range known {
		found, err := l.find(f)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		f.Layout = cmp.Or(f.Layout, l.name)
		if lacks := f.Kinds.without(f.Has); lacks != (Kinds{}) {
			return &KindError{path, f.Layout, lacks, f.Has}
		}
		f.numberNames()
		err = f.readSampleLists(lists)
		if err == nil && f.Parts == maxParts {
			err = fmt.Errorf("%s: its annotations are in %d files or more", path, maxParts)
		}
		return err
	}
	return cmp.Or[error](f.failed, &noneError{path})
}

// naming says how annotations name images.
type naming int

const (
	byPath naming = iota
	byStem
	byKey
)

// nameOf is the name of the image with a path in the dataset. Images that are stored in another
// format, or have another ending, have the same.
func (f *Found) nameOf(path string) string {
	switch f.Naming {
	case byStem:
		return stem(path)
	case byKey:
		return key(path)
	}
	return stored(path)
}

// stored removes the extension of packed images: in converted datasets, an image may be packed.
func stored(path string) string { return strings.TrimSuffix(path, ".bfs") }

// stem is a path without its extension, and without the suffix that Cityscapes adds.
func stem(path string) string { return imageOf(path, filepath.Ext(stored(path))) }

// imageOf is the name of the image that a file is about; ending follows that name in the file's
// name.
func imageOf(file, ending string) string {
	return strings.TrimSuffix(strings.TrimSuffix(stored(file), ending), "_"+cityImages)
}
