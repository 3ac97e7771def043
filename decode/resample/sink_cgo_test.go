//go:build cgo

package resample

import (
	"testing"

	"github.com/batchfs/batchfs/internal/rowtest"
)

// InC reports whether this build has C.
const InC = true

func NewSinkInC(t testing.TB, rows, row int) rowtest.Sink {
	s := rowtest.NewSink(rows, row)
	t.Cleanup(s.Close)
	return s
}
