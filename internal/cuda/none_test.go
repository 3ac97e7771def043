//go:build !(cuda && linux && cgo && (amd64 || arm64))

package cuda

import (
	"errors"
	"testing"
)

func TestNotBuilt(t *testing.T) {
	if _, err := Open(); !errors.Is(err, ErrNotBuilt) {
		t.Error(err)
	}
	t.Skip("all other tests need the tag cuda: (. scripts/libraries.sh && use_cuda && go test -tags cuda ./internal/cuda)")
}
