package fusefs

import (
	"context"
	"time"

	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/layout"
)

// A source provides what a mount shows. *engine.Engine is one, except for the type of the
// files it opens; see engineSource.
type source interface {
	plan
	batches
	documents
	memory
}

// A plan says which batches exist.
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
	// Fd is the descriptor of a file that holds exactly these bytes, or -1.
	Fd() int
	Close()
}

// documents are the files that are not batches.
type documents interface {
	DatasetJSON() []byte
	ClassesTxt() []byte // nil if the dataset has no classes
	EpochJSON(shard, epoch int) []byte
	Errors() []byte
	MemoryJSON() []byte
	Stats() engine.Stats
	ModTime() time.Time
}

// memory is the memory that batches are kept in.
type memory interface {
	Usage() (total, free, used int64)
	// Reserve permanently takes bytes out of the limit, for the mount itself.
	Reserve(bytes int64)
	// ProbeFile opens a file like those of large forms.
	ProbeFile() (fd int, closeFile func(), err error)
}

// engineSource adapts an engine to source.
type engineSource struct{ *engine.Engine }

func (s engineSource) Open(ctx context.Context, k engine.Key, f layout.Form) (file, error) {
	opened, err := s.Engine.Open(ctx, k, f)
	if err != nil {
		return nil, err // a nil *engine.File would be a non-nil file
	}
	return opened, nil
}
