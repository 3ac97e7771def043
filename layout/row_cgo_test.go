//go:build cgo

package layout

import "github.com/batchfs/batchfs/internal/rowtest"

var putFromC = rowtest.Put
