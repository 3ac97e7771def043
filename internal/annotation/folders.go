package annotation

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/parallel"
	"github.com/batchfs/batchfs/internal/store"
	"github.com/batchfs/batchfs/internal/target"
)

// imageFolders are names of folders with images, beside which there are folders with annotations.
var imageFolders = strings.Fields("images image imgs img jpegimages leftimg8bit train2014 val2014 test2014 train2017 val2017 test2017")

// parts are names of folders with one part of a dataset.
var parts = strings.Fields("train training train_extra trainval val valid validation test testing train2014 val2014 test2014 train2017 val2017 test2017")

// An ImagesError says that a folder has images in several folders.
type ImagesError struct {
	Path   string
	Images []string // relative to Folder; the likeliest is first
}

func (e *ImagesError) Error() string {
	return fmt.Sprintf("%s: it has several folders of images: %s", e.Path, strings.Join(e.Images, ", "))
}

// imagesIn returns the folder of the images at a path: a folder in dir that is named like one, or
// else dir itself.
func imagesIn(dir string) (string, error) {
	found, err := imagesBelow(dir, ".") // dir itself may be named like one
	if err == nil && found == nil {
		var names, more []string
		names, err = folders(dir)
		for k := 0; k < len(names) && err == nil; k++ {
			more, err = imagesBelow(dir, names[k])
			found = append(found, more...)
		}
	}
	switch {
	case err != nil:
		return "", err
	case len(found) > 1:
		slices.SortStableFunc(found, func(a, b string) int { return likelihood(b) - likelihood(a) })
		return "", &ImagesError{dir, found}
	case len(found) == 1:
		return filepath.Join(dir, found[0]), nil
	}
	return dir, nil
}

func likelihood(name string) int {
	if strings.HasPrefix(path.Base(name), "train") {
		return 1
	}
	return 0
}

// imagesBelow returns the parts of a folder, or else the folder itself if it is named like one of
// images.
func imagesBelow(dir, name string) (found []string, err error) {
	at := filepath.Join(dir, name)
	if !slices.Contains(imageFolders, strings.ToLower(filepath.Base(at))) {
		return nil, nil
	}
	inner, err := folders(at)
	for _, part := range inner {
		if slices.Contains(parts, strings.ToLower(part)) {
			found = append(found, path.Join(name, part))
		}
	}
	if found == nil {
		found = []string{name}
	}
	return found, err
}

// folders returns the names of the folders in dir; nil if dir is not a folder.
func folders(dir string) (names []string, err error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, nil // opening the dataset will report the problem
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if !archive.Hidden(e.Name()) && isFolder(dir, e.Name(), e) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// beside returns dir with word replaced by other in the last path element that contains it; "" if
// there is no such folder. If the path has links, it tries the path with and without them.
func (p *places) beside(dir, word, other string) string {
	place, wholes := "", []string{dir}
	if store.IsURL(dir) {
		place, wholes[0] = store.Split(dir)
	} else {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return ""
		}
		real, _ := filepath.EvalSymlinks(abs) // nothing is beside a path that does not exist
		wholes = []string{abs, real}
	}
	for _, whole := range wholes {
		names := strings.Split(whole, "/")
		for k, name := range slices.Backward(names) {
			at := strings.Index(strings.ToLower(name), word)
			if at < 0 {
				continue
			}
			names[k] = name[:at] + other + name[at+len(word):]
			if there := place + strings.Join(names, "/"); p.isDir(there) {
				return there
			}
			names[k] = name
		}
	}
	return ""
}

const maxObjects = 1 << 16 // in a file about one image

var errManyObjects = fmt.Errorf("it has more than %d objects", maxObjects)

// imageFile is the content of a file about one image.
type imageFile struct {
	height, width int
	oriented      bool
	objects       []target.Object
	classes       []string // of objects, and of those of a bad file, by name; nil: labels are numbers
	bad           string   // the rule that it breaks; "": none
	bytes         int64    // that were read
}

// A folder is one beside that of the images, and how it is read.
type folder struct {
	word, other string // in the path of the images, and what is there instead in that of the folder
	masks       bool   // of masks, unless there are some already
	read        func(f *finder, dir string) (found bool, err error)
}

// findBeside reads all of the folders that there are.
func findBeside(all []folder) func(f *finder) (bool, error) {
	return func(f *finder) (found bool, err error) {
		for _, one := range all {
			if one.masks && f.Has[target.Masks] {
				continue
			}
			if dir := f.beside(f.Images, strings.ToLower(one.word), one.other); dir != "" {
				has, err := one.read(f, dir)
				if err != nil {
					return false, err
				}
				found = found || has
			}
		}
		return found, nil
	}
}

// masksOf reads masks whose names have the first ending that there is.
func masksOf(endings ...string) func(f *finder, dir string) (bool, error) {
	return func(f *finder, dir string) (found bool, err error) {
		for k := 0; k < len(endings) && !found && err == nil; k++ {
			found, err = f.masksIn(dir, endings[k])
		}
		return found, err
	}
}

// parser reads a file about one image.
type parser func(text []byte) imageFile

// aboutImages are the kinds of files with the objects of one image each, by their endings: which
// classes those in a folder have, and how each is read. If all classes of Pascal VOC are official,
// they have the official numbers.
var aboutImages = map[string]func(f *finder, dir string) (classes []string, parse parser, err error){
	".xml":       func(*finder, string) ([]string, parser, error) { return vocClasses, parseVOC, nil },
	personEnding: func(*finder, string) ([]string, parser, error) { return personLabels, parsePersons, nil },
	".txt": func(f *finder, dir string) ([]string, parser, error) {
		y, err := f.yoloData(dir)
		f.Has[target.Keypoints] = y.keypoints > 0
		return y.names, y.parse, err
	},
}

// objectsOf reads the files with an ending that is one of aboutImages, if boxes are wanted.
func objectsOf(ending string) func(f *finder, dir string) (bool, error) {
	return func(f *finder, dir string) (bool, error) {
		names, err := f.files(dir, ending, filesBelow)
		names = slices.DeleteFunc(names, func(name string) bool { return name == yoloClasses })
		if err != nil || len(names) == 0 {
			return false, err
		}
		f.Naming, f.Has[target.Boxes] = byStem, true
		classes, parse, err := aboutImages[ending](f, dir)
		if err != nil || !f.Kinds[target.Boxes] && !f.Kinds[target.Keypoints] {
			return true, err
		}
		f.Classes = classes
		return true, f.readImages(dir, ending, names, parse)
	}
}

// readImages reads the files of a folder that are named like their images followed by an ending. It
// parses several at once, but uses the results in the order of names.
func (f *finder) readImages(dir, ending string, names []string, parse parser) error {
	f.part(join(dir, "*"+ending))
	f.progress(0, f.bytes[dir])
	return inOrder(f.ctx, f.Source.Workers, len(names), func(_ context.Context, k int) (p imageFile, err error) {
		text, err := f.readOne(join(dir, names[k]))
		if err == nil {
			p = parse(text)
		}
		p.bytes = int64(len(text))
		return p, err
	}, func(k int, p imageFile) {
		image, _ := f.image(imageOf(names[k], ending), p.height, p.width, p.oriented)
		for n, class := range p.classes {
			if label := f.label(class); n < len(p.objects) {
				p.objects[n].Label = label
			}
		}
		for _, o := range p.objects {
			f.Builder.Object(image, o)
		}
		if p.bad != "" {
			f.Builder.Bad(image, join(dir, names[k])+": "+p.bad)
		}
		f.progress(p.bytes, 0)
	})
}

// inOrder reads n things, several at once, and uses one at a time, in their order.
func inOrder[T any](
	ctx context.Context, workers, n int, read func(ctx context.Context, k int) (T, error), use func(k int, one T),
) error {
	const portion = 64 // limits the memory of what is not used yet
	for first := 0; first < n; first += portion {
		some := make([]T, min(portion, n-first))
		err := parallel.Each(ctx, workers, len(some), nil, func(ctx context.Context, items iter.Seq[int]) (err error) {
			for k := range items {
				if some[k], err = read(ctx, first+k); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for k, one := range some {
			use(first+k, one)
		}
	}
	return nil
}
