//go:build !cgo

package layout

import (
	"unsafe"

	"github.com/batchfs/batchfs/internal/kernel"
)

func fastest() kernel.Kernel { return kernel.None }

// native is empty in a build without C.
type native struct{}

func (native) open(*Converter, kernel.Kernel)        {}
func (native) close()                                {}
func (native) there() bool                           { return false }
func (native) begin(*Writer)                         {}
func (native) end()                                  {}
func (native) put(y, n int, rows []byte, stride int) {}
func (native) callback() (put, ctx unsafe.Pointer)   { return nil, nil }

func turn3(k kernel.Kernel, to Order, dst, src []byte, n, size int) bool { return false }
