package target

import (
	"path/filepath"
	"strings"
)

// Columns of a manifest, or of Parquet with images. Other columns are text, or paths of arrays.
const (
	MaskColumn   = "mask"
	BoxColumn    = "boxes"
	PointsColumn = "keypoints"
	// ObjectsColumn holds boxes in Hugging Face's datasets. If there are other boxes, it is text.
	ObjectsColumn = "objects"
)

// ArrayExt is the extension of the files of arrays.
const ArrayExt = ".npy"

// IsArray reports whether a column has arrays; path is its first value.
func IsArray(path string) bool { return strings.EqualFold(filepath.Ext(path), ArrayExt) }
