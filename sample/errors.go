package sample

import (
	"errors"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
)

// ErrMemory means that a sample does not fit the memory there may be.
var ErrMemory = errors.New("not enough memory")

// A Problem is what was wrong with a sample's file when it was indexed.
type Problem string

func (p Problem) Error() string { return string(p) }

// OfFile says whether an error is about a sample's file: what it holds is no image, damaged,
// too large or another image than the indexed one, or package dataset says so of the file
// itself. All other errors are the machine's or the caller's: they say nothing of the file.
func OfFile(err error) bool {
	if errors.Is(err, ErrMemory) || errors.Is(err, decode.ErrMemory) {
		return false
	}
	if decode.OfImage(err) || errors.Is(err, ErrUnfit) {
		return true
	}
	var problem Problem
	return errors.As(err, &problem) || dataset.OfFile(err)
}
