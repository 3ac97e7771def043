package layout

import (
	"fmt"
	"slices"
)

// Pad returns doc padded with spaces to exactly size bytes, so that a JSON document's size can
// be announced before it is written. A trailing newline stays at the end. The result may share
// doc's memory. A document longer than size is an error, since truncated JSON is unreadable.
func Pad(doc []byte, size int) ([]byte, error) {
	n := len(doc)
	if n > size {
		return nil, fmt.Errorf("layout: document of %d bytes does not fit in %d", n, size)
	}
	newline := n > 0 && doc[n-1] == '\n'
	doc = grow(doc, size-n)
	if newline {
		n--
		doc[len(doc)-1] = '\n'
		fillSpaces(doc[n : len(doc)-1])
		return doc, nil
	}
	fillSpaces(doc[n:])
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
