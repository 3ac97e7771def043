// Package sample reads and decodes single samples: for the workers of a mount, which fill the slots
// of a batch, and for commands that look at every file and need no batch.
//
// A [Loader] reads a sample's file and judges it: whether it holds an image that may be decoded and
// that is the indexed one. Mounts, verify, convert and profile share this code, so a file that is
// bad for one of them is bad for all.
//
// A [Reader] adds what a mount gets from its engine: memory for the file and its pixels, from a
// [Memory] that all readers of a command share, so that together they stay within --memory-limit. A
// file that needs more is not bad: it is not read, and the error says how much memory it needs.
//
// Package fault tells faults of a file from faults of the machine.
package sample

import (
	"errors"
	"fmt"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/shard"
)

var (
	// ErrMemory means that a sample needs more memory than is available.
	ErrMemory = fault.New(fault.Memory, "not enough memory")
	// ErrUnfit means that a sample is a valid image, but not the indexed one, from which the
	// shape of its batch was derived.
	ErrUnfit = fault.New(fault.File, "not the image that was indexed")
)

// CostOf is the cost of a sample, by its format.
func CostOf(ds *dataset.Dataset, i int) shard.Cost {
	format, _ := decode.ParseFormat(ds.Format(i))
	switch {
	case format.Raw():
		return shard.Raw
	case format == decode.Packed:
		return shard.Packed
	}
	return shard.Encoded
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
