package engine

import (
	"errors"
	"fmt"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
)

// Probe reads an image's header for package dataset, which knows no formats.
func Probe(data []byte, complete bool) (dataset.Header, error) {
	h, err := decode.ReadHeader(data, complete)
	if errors.Is(err, decode.ErrShort) {
		return dataset.Header{}, fmt.Errorf("%w: %w", dataset.ErrShort, err)
	}
	if err != nil {
		return dataset.Header{}, err
	}
	return dataset.Header{Format: h.Format.String(), Height: h.Height, Width: h.Width, Orientation: h.Orientation}, nil
}
