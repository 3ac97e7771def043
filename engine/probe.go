package engine

import (
	"errors"
	"fmt"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
)

// Probe reads an image's header for package dataset, which knows no formats: it is a
// [dataset.Prober]. A header that claims more pixels than a file of size bytes can hold is
// corrupt and must not influence the size of a batch.
func Probe(head, tail []byte, size int64) (dataset.Header, error) {
	h, err := decode.ReadHeader(head, int64(len(head)) == size)
	if err == nil {
		err = h.Plausible(size)
	}
	if errors.Is(err, decode.ErrShort) {
		return dataset.Header{}, fmt.Errorf("%w: %w", dataset.ErrShort, err)
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
