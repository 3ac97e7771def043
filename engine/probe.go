package engine

import (
	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/internal/sample"
)

// Probe reads an image's header for package dataset, which knows no formats: it is a
// [dataset.Prober].
func Probe(head, tail []byte, size int64) (dataset.Header, error) {
	return sample.Probe(head, tail, size)
}
