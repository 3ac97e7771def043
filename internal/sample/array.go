package sample

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/layout"
)

// arrayFormat is the index's format for .npy files. Their height is the first dimension plus 1, and
// their width a digest of the dtype and the other dimensions.
const arrayFormat = "array"

// ProbeArray reads the header of a .npy file for package dataset: it is a [dataset.Prober].
func ProbeArray(head, _ []byte, size int64) (dataset.Header, error) {
	h, err := layout.ReadNPYHeader(head, size)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: %w", dataset.ErrShort, err)
	}
	if err != nil {
		return dataset.Header{}, err
	}
	rows := 1
	if len(h.Shape) > 0 {
		rows = h.Shape[0]
	}
	if rows >= math.MaxInt32 {
		return dataset.Header{}, fmt.Errorf("it has %d rows, more than %d", rows, math.MaxInt32-1)
	}
	return dataset.Header{
		Format: arrayFormat, Height: rows + 1, Width: Likeness(h), Orientation: 1,
	}, nil
}

// Likeness is the same number for headers that differ only in the first dimension, and hardly ever
// for others.
func Likeness(h layout.NPYHeader) int {
	text := fmt.Sprint(h.Type, len(h.Shape), h.Shape[min(1, len(h.Shape)):])
	return 1 + int(xxhash.Sum64String(text)%math.MaxInt32)
}

// ArrayRows is the first dimension of an array that the index knows, or 1 if it has none. like
// reports whether it has the given likeness, so that it differs in nothing else.
func ArrayRows(arrays *dataset.Dataset, row, likeness int) (n int, like bool) {
	height, width := arrays.Size(row, true)
	if arrays.Format(row) != arrayFormat || width != likeness {
		return 0, false
	}
	return height - 1, true
}

// ArrayLike finds, among arrays with the given rows, those that are alike in most samples by the
// index, and reads the header of the first one. A row of -1 is none. If the file can no longer be
// read, it tries another. An error may be about any array.
func ArrayLike(
	ctx context.Context, arrays *dataset.Dataset, rows []int32,
) (h layout.NPYHeader, err error) {
	const most = 16 // files to try
	counts, common, tried := map[int]int{}, 0, 0
	for _, row := range rows {
		if row < 0 {
			continue
		}
		i := int(row)
		if why := cmp.Or(arrays.Problem(i), arrays.Unread(i)); why != "" {
			err = cmp.Or(err, fmt.Errorf("%s: %s", arrays.Path(i), why))
		} else if _, width := arrays.Size(i, true); width > 0 {
			if counts[width]++; counts[width] > counts[common] {
				common = width
			}
		}
	}
	for _, row := range rows {
		if row < 0 || common == 0 {
			continue
		}
		i := int(row)
		if _, width := arrays.Size(i, true); width != common {
			continue
		}
		if h, err = readArrayHeader(ctx, arrays, i); err == nil && Likeness(h) != common {
			err = fmt.Errorf("%s: %w", arrays.Path(i), dataset.ErrChanged)
		}
		if tried++; err == nil || tried == most || fault.Of(err) != fault.File {
			return h, err
		}
	}
	return h, cmp.Or(err, errors.New("no image has one"))
}

func readArrayHeader(
	ctx context.Context, arrays *dataset.Dataset, row int,
) (h layout.NPYHeader, err error) {
	var memory []byte // as large as the file, though little of it may be used
	defer func() {
		if memory != nil {
			_ = unix.Munmap(memory) // what was mapped can be unmapped
		}
	}()
	grow := func(n int) []byte {
		memory, _ = unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
		return memory
	}
	beginning := func(_ []byte, size int64) (from, to int64, ok bool) {
		return 0, min(size, 128<<10), true
	}
	file, _, _, err := arrays.LoadPart(ctx, row, 0, nil, grow, beginning, 0)
	if err != nil {
		return h, err
	}
	return layout.ReadNPYHeader(file, int64(len(file)))
}
