package annotation

import (
	"strings"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/target"
)

// maskField is the field of a sample of a WebDataset that is its mask.
const maskField = "seg.png"

// findMembers takes key.seg.png of a tar as the mask of key.jpg. Which there are shows when the masks are
// opened; see TakeMasks.
func (f *finder) findMembers() (bool, error) {
	if archive.ExtensionKey(f.Images) != "tar" {
		return false, nil
	}
	f.has[target.Masks] = true
	f.naming = byKey
	f.Masks = &Masks{Path: f.Images, Field: maskField, Ending: "." + maskField}
	f.part("*." + maskField)
	return true, nil
}

// key is the path of a member up to the first dot in its name.
func key(path string) string {
	at := strings.LastIndexByte(path, '/') + 1
	name, _, _ := strings.Cut(path[at:], ".")
	return path[:at] + name
}

// TakeMasks takes the masks that are in Masks.Field of an archive.
func (f *Found) TakeMasks(n int, path func(i int) string) {
	for i := range n {
		image, _ := f.image(key(path(i)), 0, 0, false)
		f.mask(image, path(i))
	}
}
