package annotation

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/batchfs/batchfs/internal/store"
)

// splitFiles separates lists of samples and COCO files from the other Options.Files.
func (f *finder) splitFiles() (lists, coco, others []string, err error) {
	for _, file := range f.Files {
		isPattern := strings.Contains(file, "*")
		switch {
		case store.Public(file) != file: // credentials would get into errors and stored results
			return nil, nil, nil, fmt.Errorf("%s: annotations are read from URLs without a query and without a password; "+
				"copy the file here", store.Public(file))
		case !isPattern && strings.HasSuffix(file, ".txt"):
			lists = append(lists, file)
		case !isPattern && strings.HasSuffix(file, ".json"):
			coco = append(coco, file)
		default:
			others = append(others, file)
		}
	}
	return lists, coco, others, nil
}

// readSampleLists reads lists of samples, such as those in ImageSets of Pascal VOC, and keeps only
// samples that are in one of them. A line begins with a name, with or without its extension and the
// folders above.
func (f *finder) readSampleLists(files []string) error {
	if len(files) == 0 {
		return nil
	}
	f.part(strings.Join(files, ", "))
	folder := filepath.Base(f.Images) + "/"
	for _, file := range files {
		text, err := f.readSmall(file)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			if len(words) == 0 {
				continue
			}
			name := path.Clean(words[0])
			if at := strings.LastIndex(name, folder); at >= 0 {
				name = name[at+len(folder):]
			}
			for _, name := range []string{f.nameOf(name), name} {
				if f.Builder.Has(name) {
					f.image(name, 0, 0, false)
				}
			}
		}
	}
	return nil
}

// readGiven reads the files that Options.Files names.
func (f *finder) readGiven(coco, others []string) error {
	if len(others) > 0 {
		f.Naming = byStem
	}
	for _, file := range others {
		found, err := f.readIn(file)
		if err == nil && !found {
			err = fmt.Errorf("%s: no annotations are found there", file)
		}
		if err != nil {
			return err
		}
	}
	return f.readCOCO(coco)
}

// readIn reads the files in a folder, or those that match a pattern such as masks/*_mask.png.
func (f *finder) readIn(place string) (bool, error) {
	dir, ending := place, ""
	if base := filepath.Base(place); strings.HasPrefix(base, "*") {
		dir, ending = dirOf(place), base[1:]
	}
	if !f.isDir(dir) || strings.Contains(dir+ending, "*") {
		return false, fmt.Errorf("%s: it is no .json file of COCO, no folder, and no pattern such as masks/*_mask.png", place)
	}
	for _, kind := range []string{".xml", personEnding, ".txt"} {
		if ending == "" || strings.HasSuffix(ending, kind) {
			if found, err := objectsOf(kind)(f, dir); err != nil || found {
				return true, err
			}
		}
	}
	found, err := f.masksIn(dir, ending)
	if !found || err != nil {
		return found, err
	}
	if filepath.Base(dir) == vocMasks {
		f.MaskClasses = vocMaskClasses()
	}
	return true, f.takeADE(dir)
}
