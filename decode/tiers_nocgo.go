//go:build !cgo

package decode

import "fmt"

var errNotOurs = fmt.Errorf("%w: of JPEGs, in a build without cgo", ErrNoPackedForm)

func (*codecState) packTiers(to, data []byte, h Header) (body int, err error) { return 0, errNotOurs }

func endTiers(k *codecState, to []byte) (body int, err error) { return 0, errNotOurs }
