package archive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

// TestFootersThatClaimMore: a small Parquet file whose footer claims more than the file could hold
// is refused before there is room for that, and whatever its depth.
func TestFootersThatClaimMore(t *testing.T) {
	list := func(n int, item ...byte) []byte { // as long as the claim
		return append(binary.AppendUvarint([]byte{0xfc}, uint64(n)), bytes.Repeat(item, n)...)
	}
	version := []byte{0x15, 0x02}
	group := []byte{0x35, 0x00, 0x18, 0x01, 'a', 0x15, 0x02, 0x00} // a column with one child
	leaf := []byte{0x15, 0x0c, 0x38, 0x01, 'a', 0x00}
	rest := []byte{0x16, 0x00, 0x19, 0x0c, 0x00} // no rows and no groups of them
	for what, footer := range map[string][]byte{
		"a list":             {0x15, 0x02, 0x19, 0xfc, 0xff, 0xff, 0xff, 0x0f},
		"a list, unknown":    {0x15, 0x02, 0xe9, 0xfc, 0xff, 0xff, 0xff, 0x0f},
		"a text":             {0x15, 0x02, 0x48, 0xff, 0xff, 0xff, 0x0f},
		"a map":              {0x15, 0x02, 0xeb, 0xff, 0xff, 0xff, 0x0f, 0xcc},
		"levels":             append(slices.Clone(version), bytes.Repeat([]byte{0x1c}, 1<<20)...),
		"lists of lists":     append(slices.Clone(version), bytes.Repeat([]byte{0x19}, 1<<20)...),
		"columns in columns": slices.Concat(version, []byte{0x19}, list(20_000, group...), rest),
		"columns, and groups": slices.Concat(version, []byte{0x19}, list(20_000, leaf...),
			[]byte{0x16, 0, 0x19}, list(20_000, 0), []byte{0}),
	} {
		b := append([]byte("PAR1"), footer...)
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(footer))), "PAR1"...)
		var err error
		if n := testkit.Allocated(func() { _, err = scan("x.parquet", b, Options{}) }); !errors.Is(err, ErrBad) || n > 64<<20 {
			t.Errorf("%s: %d MiB were allocated, %v", what, n>>20, err)
		}
	}
}

// TestHolesThatClaimSamples: the offsets of a shard, most of which is a hole, are refused before
// there is room for them.
func TestHolesThatClaimSamples(t *testing.T) {
	const n = 64 << 20
	b := make([]byte, 4*n+100)
	binary.LittleEndian.PutUint32(b, n)
	binary.LittleEndian.PutUint32(b[4:], 4*(n+2))
	var err error
	if n := testkit.Allocated(func() { _, err = scan("x.mds", b, Options{}) }); !errors.Is(err, ErrBad) || n > 1<<20 {
		t.Errorf("%d MiB were allocated, %v", n>>20, err)
	}
}
