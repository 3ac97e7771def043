package sample

import (
	"errors"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
)

// ErrMemory means that a sample needs more memory than is available.
var ErrMemory = errors.New("not enough memory")

// A Problem is the fault found in a sample's file when it was indexed.
type Problem string

func (p Problem) Error() string { return string(p) }

// OfFile reports whether an error is the fault of a sample's file: its content is not an
// image, damaged, too large or not the indexed image, or package dataset blames the file
// itself. All other errors are the machine's or the caller's and say nothing about the
// file.
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
