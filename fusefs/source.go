package fusefs

import (
	"context"
	"time"

	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/layout"
)

// A source is what a mount shows. *engine.Engine is one, but for the type of the
// files it opens; see engineSource.
type source interface {
	plan
	batches
	documents
	memory
}

// A plan says what exists.
type plan interface {
	Shards() int
	Epochs() int
	// Batches counts the batches of a shard in an epoch, at most MaxBatches.
	Batches(shard, epoch int) int
	MaxBatches() int
}

// batches describes batches without making them, and makes them.
type batches interface {
	// Size is the exact size in bytes of a batch in one of its forms.
	Size(engine.Key, layout.Form) int64
	Spec(engine.Key) layout.Spec
	Valid(engine.Key) int
	// Open waits until the batch is complete. The context ends only the wait.
	Open(context.Context, engine.Key, layout.Form) (file, error)
	// Small returns the bytes of a form that is not Large.
	Small(context.Context, engine.Key, layout.Form) ([]byte, error)
}

// A file is an open batch in one of its large forms.
type file interface {
	// Bytes may be read until Close.
	Bytes() []byte
	// Fd is a descriptor of a file that holds just these bytes, -1 if there is none.
	Fd() int
	Close()
}

// documents are the files that are no batches.
type documents interface {
	DatasetJSON() []byte
	ClassesTxt() []byte // nil where the dataset has no classes
	EpochJSON(shard, epoch int) []byte
	Errors() []byte
	MemoryJSON() []byte
	Stats() engine.Stats
	ModTime() time.Time
}

// memory is what batches are kept in.
type memory interface {
	Usage() (total, free, used int64)
	// Reserve takes bytes out of the limit for good, for what the mount itself needs.
	Reserve(bytes int64)
	// ProbeFile opens a file like those of large forms.
	ProbeFile() (fd int, closeFile func(), err error)
}

// engineSource is an engine as a source.
type engineSource struct{ *engine.Engine }

func (s engineSource) Open(ctx context.Context, k engine.Key, f layout.Form) (file, error) {
	opened, err := s.Engine.Open(ctx, k, f)
	if err != nil {
		return nil, err // a nil *engine.File in a file would not be nil
	}
	return opened, nil
}
