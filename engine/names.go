package engine

import "github.com/batchfs/batchfs/internal/catalog"

// What exists is package catalog's; these are the names that users of an engine need.
type (
	Catalog = catalog.Catalog
	Key     = catalog.Key
)

// What becomes of a sample that cannot be read.
const (
	Fail    = catalog.Fail
	Replace = catalog.Replace
	Zero    = catalog.Zero
)
