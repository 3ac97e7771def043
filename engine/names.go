package engine

import "github.com/batchfs/batchfs/internal/catalog"

// What exists is package catalog's; these are the names that users of an engine need.
type (
	Catalog = catalog.Catalog
	Key     = catalog.Key
	Part    = catalog.Part
)

// What is made of a batch together.
const (
	Images = catalog.Images
	Masks  = catalog.Masks
	Both   = catalog.Both
)

// What becomes of a sample that cannot be read.
const (
	Fail    = catalog.Fail
	Replace = catalog.Replace
	Zero    = catalog.Zero
)
