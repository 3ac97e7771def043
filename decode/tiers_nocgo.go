//go:build !cgo

package decode

import "fmt"

func (*kept) packTiers([]byte, Header) ([]byte, error) {
	return nil, fmt.Errorf("%w: of JPEGs, in a build without cgo", ErrNoPackedForm)
}
