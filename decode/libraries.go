//go:build cgo && libraries

package decode

// The build tag "libraries" is for measurements: libjpeg-turbo decodes all JPEGs, and libspng the
// PNGs that the fast path would, so that a mount decodes as other programs do. Pixels are the same;
// what is said of damaged PNGs may not be.

// #cgo CFLAGS: -DBFS_LIBRARIES
// #cgo LDFLAGS: -lspng
import "C"
