package engine

import (
	"errors"
	"fmt"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
)

// Probe reads an image's header for package dataset, which knows no formats, from the
// beginning of a file of size bytes. One that claims more pixels than so many bytes can
// hold is corrupt: it must not decide how large a batch is.
func Probe(data []byte, size int64) (dataset.Header, error) {
	h, err := decode.ReadHeader(data, int64(len(data)) == size)
	if err == nil {
		err = h.Plausible(size)
	}
	if errors.Is(err, decode.ErrShort) {
		return dataset.Header{}, fmt.Errorf("%w: %w", dataset.ErrShort, err)
	}
	if err != nil {
		return dataset.Header{}, err
	}
	return dataset.Header{Format: h.Format.String(), Height: h.Height, Width: h.Width, Orientation: h.Orientation}, nil
}
