//go:build cgo && libraries

package decode

// The build tag "libraries" is for measurements: libjpeg-turbo decodes all JPEGs, and libspng
// decodes the PNGs of the fast path, so that a mount decodes like other programs. Pixels are the
// same; errors about damaged PNGs may differ.

// #cgo CFLAGS: -DBFS_LIBRARIES
// #cgo LDFLAGS: -lspng
import "C"
