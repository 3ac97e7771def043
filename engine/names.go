package engine

import "github.com/batchfs/batchfs/internal/catalog"

// Package catalog defines what exists; these are the names that users of an engine need.
type (
	Catalog = catalog.Catalog
	Key     = catalog.Key
	Part    = catalog.Part
)

// The parts that a batch is made of.
const (
	Images = catalog.Images
	Masks  = catalog.Masks
	Both   = catalog.Both
)

// What to do about a sample that cannot be read.
const (
	Fail    = catalog.Fail
	Replace = catalog.Replace
	Zero    = catalog.Zero
)
