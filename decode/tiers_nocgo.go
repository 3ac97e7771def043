//go:build !cgo

package decode

import "fmt"

func (*kept) packTiers(to, data []byte, h Header) (body int, err error) {
	return 0, fmt.Errorf("%w: of JPEGs, in a build without cgo", ErrNoPackedForm)
}
