// Package sample reads and decodes single samples: for the workers of a mount, which fill
// the slots of a batch, and for commands that look at every file and need no batch.
//
// A [Loader] reads a sample's file and judges it: whether it holds an image that may be
// decoded and that is the indexed one. Mounts, verify, convert and profile share this code,
// so a file that is bad for one of them is bad for all.
//
// A [Reader] adds what a mount gets from its engine: memory for the file and its pixels,
// from a [Memory] that all readers of a command share, so that together they stay within
// --memory-limit. A file that needs more is not bad: it is not read, and the error says how
// much memory it needs.
//
// [OfFile] tells faults of a file from faults of the machine.
package sample

import (
	"errors"
	"fmt"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
)

var (
	// ErrMemory means that a sample needs more memory than is available.
	ErrMemory = errors.New("not enough memory")
	// ErrUnfit means that a sample is a valid image, but not the indexed one, from which the
	// shape of its batch was derived.
	ErrUnfit = errors.New("not the image that was indexed")
)

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
	return decode.OfImage(err) || errors.Is(err, ErrUnfit) || errors.As(err, new(Problem)) || dataset.OfFile(err)
}

// IsRaw reports whether a sample is stored as plain pixels.
func IsRaw(ds *dataset.Dataset, i int) bool {
	format, _ := decode.ParseFormat(ds.Format(i))
	return format.Raw()
}

// Probe reads an image's header for package dataset: it is a [dataset.Prober]. A header that
// claims more pixels than a file of size bytes can hold is corrupt and must not influence the
// size of a batch.
func Probe(head, tail []byte, size int64) (dataset.Header, error) {
	h, err := decode.ReadHeader(head, int64(len(head)) == size)
	if err == nil {
		err = h.Plausible(size)
	}
	if errors.Is(err, decode.ErrShort) {
		err = fmt.Errorf("%w: %w", dataset.ErrShort, err)
	}
	if err != nil {
		return dataset.Header{}, err
	}
	if tail != nil {
		h = h.WithTail(tail)
	}
	return dataset.Header{
		Format: h.Format.String(), Height: h.Height, Width: h.Width, Orientation: h.Orientation, Tail: h.Tail(size),
	}, nil
}
