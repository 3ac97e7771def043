package engine

import "github.com/batchfs/batchfs/internal/catalog"

// Package catalog defines what exists; these are the names that users of an engine need.
type (
	Catalog = catalog.Catalog
	Key     = catalog.Key
)

// What to do about a sample that cannot be read.
const (
	Fail    = catalog.Fail
	Replace = catalog.Replace
	Zero    = catalog.Zero
)
