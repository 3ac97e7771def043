package dataset

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/batchfs/batchfs/internal/archive"
)

// An arrangement is the order and the labels that names have as the paths of files in a directory;
// see listDirectory.
type arrangement struct {
	order   []int32 // of the names; not nil
	label   []int32 // by name
	classes []string
	strip   int // length of the beginning that all paths have in common, which is left out
	ignored map[string]int
}

// arrange finds the samples among n names of files, of which empty ones do not count, and the classes. The paths of folders
// need not name all of them, but those without samples, which are classes, too. If lift is set and everything is in one folder
// of folders, that folder is the dataset.
func arrange(n int, name func(i int) string, folders map[string]bool, lift bool) arrangement {
	a := arrangement{order: []int32{}, label: make([]int32, n), ignored: map[string]int{}}
	common := ""
	if lift {
		common = commonFolder(n, name)
	}
	a.strip = len(common)
	rest := func(i int32) string { return name(int(i))[a.strip:] }
	classes, inFolders := map[string]bool{}, false
	for folder := range folders {
		if inside, is := strings.CutPrefix(folder, common); is && inside != "" {
			class, _, _ := strings.Cut(inside, "/")
			classes[class] = true
		}
	}
	for i := range int32(n) {
		p := rest(i)
		class, _, nested := strings.Cut(p, "/")
		switch {
		case p == "": // outside
			continue
		case archive.Hidden(p):
			a.ignored["."]++
			continue
		case nested:
			classes[class] = true
		}
		if !archive.IsImage(p) {
			a.ignored[archive.ExtensionKey(p)]++
			continue
		}
		inFolders = inFolders || nested
		a.order = append(a.order, i)
	}
	if inFolders {
		a.classes = slices.SortedFunc(maps.Keys(classes), CompareNames)
		a.order = slices.DeleteFunc(a.order, func(i int32) bool {
			flat := !strings.Contains(rest(i), "/")
			if flat {
				a.ignored[archive.ExtensionKey(rest(i))]++
			}
			return flat
		})
	}
	labels := map[string]int32{}
	for k, class := range a.classes {
		labels[class] = int32(k)
	}
	for _, i := range a.order {
		class, _, _ := strings.Cut(rest(i), "/")
		if a.label[i] = -1; inFolders {
			a.label[i] = labels[class]
		}
	}
	slices.SortStableFunc(a.order, func(x, y int32) int {
		dirX, baseX := path.Split(rest(x))
		dirY, baseY := path.Split(rest(y))
		return cmp.Or(cmp.Compare(a.label[x], a.label[y]), CompareNames(strings.TrimSuffix(dirX, "/"), strings.TrimSuffix(dirY, "/")), CompareNames(baseX, baseY))
	})
	return a
}

// commonFolder is the path, with its slash, of the folder that is the dataset if all
// folders of images are in it, or if it has all images and is named like a part of a dataset.
func commonFolder(n int, name func(i int) string) string {
	only, above, found := "", "", false // the folder of all images, and what the folders of images have in common
	for i := range n {
		p := name(i)
		if archive.Hidden(p) || !archive.IsImage(p) {
			continue
		}
		dir, _ := path.Split(p)
		parent := dir[:strings.LastIndexByte(strings.TrimSuffix(dir, "/"), '/')+1]
		if !found {
			only, above, found = dir, parent, true
		}
		if dir != only {
			only = ""
		}
		for !strings.HasPrefix(parent, above) {
			above = above[:strings.LastIndexByte(strings.TrimSuffix(above, "/"), '/')+1]
		}
	}
	if only != "" && len(partOf(path.Base(only))) > 0 {
		return only
	}
	return above
}

// duplicate returns an error for a path that occurs twice in an order.
func (a *arrangement) duplicate(name func(i int) string) error {
	for k := 1; k < len(a.order); k++ {
		if x, y := name(int(a.order[k-1])), name(int(a.order[k])); x == y {
			return fmt.Errorf("%q is there twice", x[a.strip:])
		}
	}
	return nil
}
