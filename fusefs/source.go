package fusefs

import (
	"context"

	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/layout"
)

// A source provides what a mount shows. *engine.Engine is one, except for the type of the
// files it opens; see engineSource.
type source interface {
	// Catalog says which batches exist and how large they are.
	Catalog() *engine.Catalog
	// Open waits until a batch is complete, in one of its large forms. The context ends only
	// the wait.
	Open(context.Context, engine.Key, layout.Form) (file, error)
	// Describe says what a batch shows.
	Describe(context.Context, engine.Key) (engine.Description, error)
	// Errors are the samples that could not be read.
	Errors() []engine.BadSample
	Stats() engine.Stats
	// Usage is the memory limit and its use, in bytes.
	Usage() (total, free, used int64)
	// Reserve permanently takes bytes out of the limit, for the mount itself.
	Reserve(bytes int64)
	// ProbeFile opens a file like those of large forms.
	ProbeFile() (fd int, closeFile func(), err error)
}

// A file is an open batch in one of its large forms.
type file interface {
	// Bytes may be read until Close.
	Bytes() []byte
	// Fd is the descriptor of a file that holds exactly these bytes, or -1.
	Fd() int
	Close()
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
