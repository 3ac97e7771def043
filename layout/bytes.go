package layout

import (
	"fmt"
	"slices"
)

// Pad returns doc padded with spaces to exactly size bytes, so that a JSON document's size can be
// announced before it is written. The result may share doc's memory. A document longer than size is
// an error, since truncated JSON is unreadable.
func Pad(doc []byte, size int) ([]byte, error) {
	if len(doc) > size {
		return nil, fmt.Errorf("layout: document of %d bytes does not fit in %d", len(doc), size)
	}
	end := len(doc)
	doc = grow(doc, size-end)
	fillSpaces(doc[end:])
	return doc, nil
}

// grow lengthens b by n bytes with arbitrary contents.
func grow(b []byte, n int) []byte { return slices.Grow(b, n)[:len(b)+n] }

func fillSpaces(b []byte) {
	for i := range b {
		b[i] = ' '
	}
}

func roundUp(n, multiple int64) int64 { return (n + multiple - 1) / multiple * multiple }
