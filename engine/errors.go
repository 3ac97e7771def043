package engine

import "errors"

var (
	// ErrBad means that a batch holds a sample that cannot be read.
	ErrBad = errors.New("bad sample")
	// ErrNoMemory means that the memory limit leaves no room for the batch, or that the
	// kernel refused the memory.
	ErrNoMemory = errors.New("out of memory")
	// ErrMachine means that storage, descriptors or batchfs itself failed. No file is at
	// fault, and the next Open tries the batch again.
	ErrMachine = errors.New("the machine failed")
	// ErrLeftBehind is returned by Close if reads hang in the kernel. The reads, the memory
	// they use and the dataset's descriptors stay until the reads return.
	ErrLeftBehind = errors.New("reads that hang in the kernel were left behind")
	// ErrTooBig means that the batch would exceed the maximum size of a file.
	ErrTooBig = errors.New("the batch is larger than a file can be")
	// ErrNotExist means that there is no such batch.
	ErrNotExist = errors.New("no such batch")
	// ErrClosed means that the engine is shutting down.
	ErrClosed = errors.New("engine closed")

	// errDropped ends the work for a batch that nothing waits for.
	errDropped = errors.New("batch dropped")
	// errNoRoom means that the memory limit leaves no room at the moment. A batch that an
	// Open waits for then waits for its turn. The error never reaches a reader.
	errNoRoom = errors.New("no room under the memory limit yet")
)
