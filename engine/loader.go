package engine

import (
	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/sample"
)

// NewLoader returns a Loader that reads samples like the workers of a mount with these
// options.
func NewLoader(ds *dataset.Dataset, o *Options) *sample.Loader {
	transform := o.Transform
	transform.Seed = o.Seed
	return sample.NewLoader(ds, transform, o.Decoding)
}

// IsRaw reports whether a sample is stored as plain pixels.
func IsRaw(ds *dataset.Dataset, i int) bool { return sample.IsRaw(ds, i) }
