// Package annotation finds what is annotated of the images of a dataset, in the layouts in which
// such datasets are published: folders of masks, Cityscapes and CityPersons, COCO, YOLO, Pascal
// VOC, ADE20K, and the columns of manifests. It reads annotations, and decodes no image.
package annotation

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/store"
	"github.com/batchfs/batchfs/internal/target"
)

// Options say what is looked for, and where.
type Options struct {
	Kinds Kinds // that are wanted
	// Files are where annotations are, if not where their layout has them: a .json file of COCO, a
	// folder of files for one image each, such files as a pattern (masks/*_mask.png), a .txt file
	// that lists the samples.
	Files []string
	// LabelMap says which classes the values of masks are: "": those of the layout, "trainids", or
	// a file of a value and its class in each line.
	LabelMap string
	// SkipEmpty leaves out images of which nothing is annotated.
	SkipEmpty bool
	// IgnoreMetadata, AllowOutside, AsClasses and LabelColumn are those of the dataset of images.
	IgnoreMetadata, AllowOutside, AsClasses bool
	LabelColumn                             string
	Workers                                 int // files that are read at once
	// Dir is where what was read is kept, for the next time, and where there is room for what is
	// large. "": neither.
	Dir string
	// Logger is told why what was kept is not used, or nothing is kept; nil: nobody is.
	Logger *slog.Logger
	Store  store.Options // how a store is reached, if anything is in one
	// Progress, if not nil, reports how many bytes were read.
	Progress func(done, total int64)
}

// source are the options of the dataset of images.
func (o *Options) source() dataset.Options {
	return dataset.Options{
		IgnoreMetadata: o.IgnoreMetadata, AsClasses: o.AsClasses, LabelColumn: o.LabelColumn,
		Workers: o.Workers, Logger: o.Logger, Store: o.Store,
	}
}

// Kinds is a set of kinds of targets.
type Kinds [target.NumKinds]bool

var kindNames = [target.NumKinds]string{"masks", "boxes", "keypoints", "text", "arrays"}

// Names are the kinds in the set, in words.
func (k Kinds) Names() (names []string) {
	for kind, has := range k {
		if has {
			names = append(names, kindNames[kind])
		}
	}
	return names
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

// without are the kinds of which the other set has none.
func (k Kinds) without(other Kinds) (rest Kinds) {
	for kind, has := range k {
		rest[kind] = has && !other[kind]
	}
	return rest
}

// A Sink takes what is said of each image, under its name; see [target.Builder].
type Sink interface {
	Image(name string, height, width int, oriented bool) int
	Has(name string) bool
	Object(image int, o target.Object)
	Mask(image int, path string)
	Array(image, column int, path string)
	Shape(image int, s target.Shape)
	Text(image int, object []byte)
	Bad(image int, reason string)
	Twins(f func(image int, id int64))
}

// Found is what was found.
type Found struct {
	Layout      string   // such as COCO
	Images      string   `json:"-"` // the dataset of the images
	Sources     []string // files that were read, or folders of many
	Classes     []string // of objects by label; nil: they have no names
	MaskClasses []string // of masks by value; nil: they have no names
	Masks       *Masks   // nil: masks are in no files
	Arrays      *Arrays  // nil: there are none, or they are not wanted
	// Values are the classes that the values of masks stand for, -1 for none. Values beyond its end
	// stand for none, too. nil: all are as they are.
	Values  []int32
	Objects int // that there are
	Strays  int // annotations of images that are not listed
	// Members are fields of the samples of the archive that Images is, which are to be read; see
	// TakeMembers.
	Members []string `json:"-"`
	read
	options Options
	to      Sink
}

// read is what is known of the images.
type read struct {
	Naming  naming
	First   string  // name of an image
	Has     Kinds   // what there is
	Parts   entry   // that were read, each of which has to have an entry of an image
	Entries []entry // by the numbers of images
}

// An entry is in how many parts an image is, and holding, if something is annotated.
type entry uint8

const holding entry = 1 << 7

// Masks says where the files of masks are. They are a dataset of their own.
type Masks struct {
	Path     string
	Ending   string // of their names; "": any
	Column   string // of the manifest that Path has; "": it has none
	Field    string // of samples of the archives that Path is; "": it is none. See TakeMasks
	Panoptic bool   // values are red + 256 green + 65536 blue
}

// Arrays says where the files of arrays are. Those of each column are a dataset of their own.
type Arrays struct {
	Path    string   // a manifest
	Columns []string // that have paths, by number
}

// Only reports whether a file is a mask.
func (m *Masks) Only(path string) bool {
	return strings.HasSuffix(stored(path), m.Ending) && (!m.Panoptic || archive.IsImage(path))
}

// Only reports whether an image has an entry in all that was read, and so is a sample.
func (f *Found) Only(path string) bool {
	name := f.Name(path)
	if !f.to.Has(name) {
		return false
	}
	return f.isSample(f.read.Entries[f.to.Image(name, 0, 0, false)])
}

func (f *Found) isSample(e entry) bool {
	return e&^holding == f.Parts && (e >= holding || !f.options.SkipEmpty)
}

// part begins to read a file, or a folder of files.
func (f *Found) part(file string) {
	f.Parts = min(f.Parts+1, holding) // where that is refused
	f.Sources = append(f.Sources, file)
}

// image returns the number of an image that the part which is being read has; twice is whether it
// has it already.
func (f *Found) image(name string, height, width int, oriented bool) (image int, twice bool) {
	image = f.to.Image(name, height, width, oriented)
	if image == len(f.read.Entries) {
		f.read.Entries = append(f.read.Entries, 0)
		f.First = cmp.Or(f.First, name)
	}
	e := &f.read.Entries[image]
	parts := *e &^ holding
	if parts == f.Parts-1 {
		*e++
	}
	return image, parts == f.Parts
}

// Entries is how many images have an entry in all that was read.
func (f *Found) Entries() (n int) {
	for _, e := range f.read.Entries {
		if f.isSample(e) {
			n++
		}
	}
	return n
}

// Example is the name of an image that has an entry; "": none has.
func (f *Found) Example() string { return f.First }

// object, shape and text are those of the Sink; they remember which images have any.
func (f *Found) object(image int, o target.Object) {
	f.Objects++
	f.read.Entries[image] |= holding
	f.to.Object(image, o)
}

func (f *Found) shape(image int, s target.Shape) {
	f.read.Entries[image] |= holding
	f.to.Shape(image, s)
}

func (f *Found) text(image int, object []byte) {
	f.read.Entries[image] |= holding
	f.to.Text(image, object)
}

func (f *Found) mask(image int, path string) {
	f.read.Entries[image] |= holding
	f.to.Mask(image, path)
}

func (f *Found) array(image, column int, path string) {
	f.read.Entries[image] |= holding
	f.to.Array(image, column, path)
}

// A KindError is the error of a dataset that has no targets of a kind that is wanted.
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

// A NoneError is the error of a dataset without annotations in any known layout.
type NoneError struct{ Dataset string }

func (e *NoneError) Error() string { return e.Dataset + ": no annotations found" }

// finder is the state of one Open.
type finder struct {
	*Found
	Options
	*places
}

// A layout finds and reads what it knows. found is false if nothing looks like it.
type layout struct {
	name string
	find func(*finder) (found bool, err error)
}

func newFinder(ctx context.Context, images string, to Sink, o Options) *finder {
	return &finder{&Found{Images: images, to: to, options: o}, o, newPlaces(ctx, &o)}
}

// imagesAt is the dataset of the images at a path.
func imagesAt(ctx context.Context, path string, o *Options) (string, error) {
	if store.IsURL(path) {
		return path, nil
	}
	rows, err := dataset.FindRows(ctx, path, o.source())
	if err != nil {
		return path, err
	}
	if rows != nil {
		return path, rows.Close()
	}
	return imagesIn(path)
}

// find looks for annotations in one layout after another.
func (f *finder) find(path string) (*Found, error) {
	path = public(path)
	for _, file := range f.Files {
		if err := checkURL(file); err != nil {
			return nil, err
		}
	}
	layouts := []layout{
		{"a manifest", (*finder).findManifest}, {"Cityscapes", (*finder).findCityscapes}, {"Pascal VOC", (*finder).findVOC},
		{"ADE20K", (*finder).findADE}, {"COCO", (*finder).findCOCO}, {"YOLO", (*finder).findYOLO}, {"a folder of masks", (*finder).findFolder},
		{"a WebDataset", (*finder).findMembers},
	}
	lists, coco, others := f.splitFiles()
	if len(coco)+len(others) > 0 {
		layouts = []layout{{"the annotations that were named", (*finder).findGiven}}
	}
	for _, l := range layouts {
		found, err := l.find(f)
		if err == nil && found {
			f.Layout = cmp.Or(f.Layout, l.name)
			if lacks := f.Kinds.without(f.Has); len(lacks.Names()) > 0 {
				err = &KindError{path, f.Layout, lacks, f.Has}
			}
		}
		if err == nil && found {
			err = f.readSampleLists(lists)
		}
		if err == nil && found {
			err = f.mapLabels(f.LabelMap)
		}
		if err == nil && f.Parts == holding {
			err = fmt.Errorf("%s: its annotations are in more than %d files", path, holding-1)
		}
		if err != nil {
			return nil, err
		}
		if found {
			return f.Found, nil
		}
	}
	return nil, cmp.Or[error](f.failed, &NoneError{path})
}

// naming is what the name of an image is made of.
type naming int

const (
	byPath naming = iota
	byStem
	byKey
)

// Name is the name of the image with a path in the dataset. Images that are stored in another
// format, or have another ending, have the same.
func (f *Found) Name(path string) string {
	switch f.Naming {
	case byStem:
		return stem(path)
	case byKey:
		return key(path)
	}
	return stored(path)
}

// stored is the name of an image of which annotations say the path: in converted datasets, it may
// be packed.
func stored(path string) string { return strings.TrimSuffix(path, ".bfs") }

// stem is a path without its extension, and what Cityscapes writes before it.
func stem(path string) string {
	path = stored(path)
	return strings.TrimSuffix(strings.TrimSuffix(path, filepath.Ext(path)), "_"+cityImages)
}
