package engine

import "github.com/batchfs/batchfs/engine/catalog"

// What exists is package catalog's; these are the names that users of an engine need.
type (
	Catalog     = catalog.Catalog
	Key         = catalog.Key
	Description = catalog.Description
	Sample      = catalog.Sample
	Status      = catalog.Status
	OnError     = catalog.OnError
)

const (
	Fail           = catalog.Fail
	Replace        = catalog.Replace
	Zero           = catalog.Zero
	StatusOK       = catalog.StatusOK
	StatusPadded   = catalog.StatusPadded
	StatusReplaced = catalog.StatusReplaced
	StatusZeroed   = catalog.StatusZeroed
	StatusCorrupt  = catalog.StatusCorrupt
)
