package sample

import (
	"fmt"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/dataset"
)

// maskFormats are the index's formats of masks, by the bytes of a value.
var maskFormats = [...]string{1: "mask8", 2: "mask16", 3: "maskrgb"}

// ProbeMask reads a mask's header for package dataset: it is a [dataset.Prober]. The format is that
// of the values, not of the file, since it determines the dtype of all masks. Size and values are
// as stored, whatever the file's orientation.
func ProbeMask(head, _ []byte, size int64) (dataset.Header, error) {
	h, err := Probe(head, nil, size)
	if err != nil {
		return h, err
	}
	n, err := decode.ValueBytes(head)
	if err != nil {
		return dataset.Header{}, err
	}
	h.Format, h.Orientation, h.Tail = maskFormats[n], 1, 0
	return h, nil
}

// JudgeMask reads the header of a mask's file, and returns how many bytes a value has. It fails if
// there are more than most values.
func JudgeMask(file []byte, most int64) (head decode.Header, bytes int, err error) {
	if head, err = decode.ReadHeader(file, true); err == nil {
		bytes, err = decode.ValueBytes(file)
	}
	if err == nil {
		err = bounded(head.Height, head.Width, most)
	}
	return head, bytes, err
}

// bounded returns an error for an image with more than most pixels.
func bounded(height, width int, most int64) error {
	if n := int64(height) * int64(width); n > most {
		return fmt.Errorf("%w: %d pixels, more than the %d allowed (--max-pixels)", decode.ErrTooLarge, n, most)
	}
	return nil
}

// ValueBytes is how many bytes the values of a mask have, by the index; 0: unknown.
func ValueBytes(masks *dataset.Dataset, i int) int {
	for n, format := range maskFormats {
		if n > 0 && masks.Format(i) == format {
			return n
		}
	}
	return 0
}
